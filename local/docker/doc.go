// Package docker holds the container tests: they bring local/compose.yaml up under a name
// of its own, check from outside what clients, backends and operators were promised, and
// then kill a primary, cut one function off from the cluster, restart every service, and
// empty every Valkey server. They need a Docker Engine and the images, so they run only
// with DOCKER=1, as ./scripts/test -docker sets it.
package docker
