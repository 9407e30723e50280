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

// maxSelected is how many keys can be ticked: those of a page.
const maxSelected = 100

// bulkForm is a change of many keys as it was asked for.
type bulkForm struct {
	do       string
	ids      []string // the ticked keys; empty for all that the filter means
	filter   app.KeyFilter
	all      bool
	plan     form.Input // name
	override changes.OverrideForm
	reason   form.Input
	confirm  form.Input // the number of keys
	shown    int64      // how many keys the form said it changes; -1 when it said nothing
	total    int64      // how many there are
	problem  string
}

// readForm fails for a form that is not ours.
func readForm(values url.Values) (bulkForm, error) {
	f := bulkForm{
		do: values.Get("do"), ids: values["id"], plan: form.Typed(values, "to", page.MaxName+10),
		reason: form.Typed(values, "reason", form.MaxReasonInput), confirm: form.Typed(values, "confirm", 20),
		all: values.Get(ofField) == ofAll, shown: -1,
	}
	var ok bool
	if f.filter, ok = changes.ReadKeyFilter(values); !ok || len(f.ids) > maxSelected ||
		!form.IsOption(actions, f.do) {
		return f, form.ErrForeign
	}
	switch {
	case f.all:
		f.ids = nil
	case len(f.ids) == 0 && values.Get(ofField) != ofSelected:
		return f, form.ErrForeign
	}
	if text := values.Get("count"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return f, form.ErrForeign
		}
		f.shown = n
	}
	withVersion := url.Values{"version": {"0"}}
	for name := range values {
		if name != "version" {
			withVersion[name] = values[name]
		}
	}
	var err error
	f.override, err = changes.ReadOverrideForm(withVersion)
	return f, err
}

// job is what the form asks for.
func (f *bulkForm) job() app.Job {
	j := app.Job{Do: f.do, Plan: f.plan.Text, Total: f.total, IDs: f.ids}
	if f.all {
		j.Filter = &f.filter
	}
	switch f.do {
	case app.Override:
		j.Override = f.override.Override(time.Now())
	case app.Plan:
	default:
		j.Plan = ""
	}
	return j
}

// check notes what is wrong with the change itself.
func (f *bulkForm) check(set *policy.Set) int {
	switch f.do {
	case app.Plan:
		if _, known := set.Plan(f.plan.Text); !known {
			f.plan.Error = form.ChooseFromList
		}
	case app.Override:
		f.override.Override(time.Now())
		return f.override.Errors()
	}
	f.reason.CheckReason()
	return form.CountErrors(f.plan, f.reason)
}

// confirms is what to type before the job begins, the number of keys; empty when nothing
// is to be typed.
func (f *bulkForm) confirms() string {
	if !f.all || !(app.KeyChange{Do: f.do}).NeedsCount() {
		return ""
	}
	return page.Number(f.total)
}

// checkConfirm notes a confirmation that is missing, or of another number of keys.
func (f *bulkForm) checkConfirm() int {
	word := f.confirms()
	if typed := strings.TrimSpace(f.confirm.Text); strings.ReplaceAll(typed, ",", "") !=
		strings.ReplaceAll(word, ",", "") && word != "" {
		f.confirm.Error = "Type " + word + " to confirm."
	}
	return form.CountErrors(f.confirm)
}

// checkTotal notes that the form said another number of keys than there are. Selected
// keys that are gone are no harm.
func (f *bulkForm) checkTotal() bool {
	if !f.all || f.shown == f.total {
		return true
	}
	now := page.Number(f.total) + " keys match now"
	if f.total == 1 {
		now = "1 key matches now"
	}
	f.problem = "Nothing changed: " + now + "."
	if f.shown >= 0 {
		f.problem = "Nothing changed: " + now + ", not " + page.Number(f.shown) + "."
	}
	f.problem += " Confirm again."
	f.confirm = form.Input{}
	return false
}
