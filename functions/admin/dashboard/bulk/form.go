package bulk

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
)

// A job changes many keys, some with each request, since a function may be frozen between
// two. All of its state is in the address of its page, so it can be left and gone on
// with; doing a part twice changes nothing twice. Only the session that started it goes
// on with it: see jobSeal.

const (
	maxSelected = 100
	maxCursor   = 1000
)

// job is a change of many keys as its address has it.
type job struct {
	do       string
	ids      []string // the selected keys; empty for all that the filter means
	filter   app.KeyFilter
	plan     form.Input // name
	override changes.OverrideForm
	reason   form.Input
	confirm  form.Input // the number of keys, or what the action is called
	after    string     // cursor
	done     int64
	skipped  int64 // were as they should be already
	failed   []string
	total    int64
	finished bool
	foreign  bool       // this session did not start it
	values   url.Values // what the address holds
}

// readJob fails for an address that is not ours.
func readJob(values url.Values) (job, error) {
	j := job{
		do: values.Get("do"), ids: values["id"], plan: form.Typed(values, "to", page.MaxName+10),
		reason: form.Typed(values, "reason", form.MaxReasonInput), confirm: form.Typed(values, "confirm", 20),
		after: values.Get("after-key"), failed: values["failed"], finished: values.Get("finished") != "",
		values: values,
	}
	var ok bool
	if j.filter, ok = changes.ReadKeyFilter(values); !ok || len(j.ids) > maxSelected || len(j.after) > maxCursor ||
		len(j.failed) > maxFailed+1 {
		return job{}, form.ErrForeign
	}
	if values.Get("of") == "all" {
		j.ids = nil
	} else if len(j.ids) == 0 && values.Get("of") != "selected" {
		return job{}, form.ErrForeign
	}
	for _, n := range []struct {
		name string
		to   *int64
	}{{"done", &j.done}, {"skipped", &j.skipped}, {"total", &j.total}} {
		if text := values.Get(n.name); text != "" {
			count, err := strconv.ParseInt(text, 10, 64)
			if err != nil || count < 0 {
				return job{}, form.ErrForeign
			}
			*n.to = count
		}
	}
	withVersion := url.Values{"version": {"0"}}
	for name := range values {
		if name != "version" {
			withVersion[name] = values[name]
		}
	}
	var err error
	j.override, err = changes.ReadOverrideForm(withVersion)
	return j, err
}

// all reports whether the job is on what a filter means.
func (j *job) all() bool { return j.values.Get("of") == "all" }

// check notes what is wrong with the change itself.
func (j *job) check(set *policy.Set) int {
	switch j.do {
	case app.Plan:
		if _, known := set.Plan(j.plan.Text); !known {
			j.plan.Error = form.ChooseFromList
		}
	case app.Override:
		j.override.Override(time.Now())
		return j.override.Errors()
	}
	j.reason.CheckReason()
	return form.CountErrors(j.plan, j.reason)
}

// confirmWord is what to type before the job begins: the number of keys, or where that
// is not known, what it does. It is empty when nothing is to be typed.
func (j *job) confirmWord() string {
	switch {
	case !j.all() || !j.change().NeedsCount():
		return ""
	case j.total > 0:
		return page.Number(j.total)
	}
	return j.do
}

// checkConfirm notes a confirmation that is missing, or of another number of keys.
func (j *job) checkConfirm() {
	word := j.confirmWord()
	if typed := strings.TrimSpace(j.confirm.Text); strings.ReplaceAll(typed, ",", "") !=
		strings.ReplaceAll(word, ",", "") && word != "" {
		j.confirm.Error = "Type " + word + " to confirm."
	}
}
