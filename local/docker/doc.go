// Package docker has a smoke test of the containers: it starts local/compose.yaml under a
// separate project name, calls, edits a limit and reads the dashboard. It needs a Docker
// Engine and the images, so it runs only with DOCKER=1, which ./scripts/test -docker sets.
package docker
