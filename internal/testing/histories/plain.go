//go:build !race

package histories

const underRace = false
