//go:build race

package accuracy

func init() { raceDetector = true }
