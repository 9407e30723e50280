package main

type verdict string

// The verdicts.
const (
	ok      verdict = "ok"
	differs verdict = "differs"
	skipped verdict = "skipped"
)

// outcome is a verdict with the observation, or the reason of a skip.
type outcome struct {
	verdict verdict
	seen    string
}

func pass(seen string) outcome { return outcome{ok, seen} }

func differ(seen string) outcome { return outcome{differs, seen} }

func skip(reason string) outcome { return outcome{skipped, reason} }

// judged returns a pass or a difference.
func judged(good bool, seen string) outcome {
	if good {
		return pass(seen)
	}
	return differ(seen)
}
