// Package docker has the container tests. They start local/compose.yaml under a separate
// project name, and check the documented behaviour for clients, backends and operators.
// Then they kill a primary, cut one function off from the cluster, restart every service,
// and empty every Valkey server. They need a Docker Engine and the images, so they run
// only with DOCKER=1, which ./scripts/test -docker sets.
package docker
