package wording

import (
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
)

// JobState says how far a job is, such as "Stopped: 20 of 50".
func JobState(j app.Job) string {
	text := "Running"
	switch {
	case j.Over():
		return "Finished"
	case j.Stopped:
		text = "Stopped"
	}
	return text + ": " + page.Number(j.Processed()) + " of " + page.Number(j.Total)
}

// JobResult says what a job made of its keys, such as "48 changed, 2 unchanged".
func JobResult(j app.Job) string {
	text := page.Number(j.Done) + " changed, " + page.Number(j.Skipped) + " unchanged"
	if j.Failed > 0 {
		text += ", " + page.Number(j.Failed) + " failed"
	}
	return text
}
