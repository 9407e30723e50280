package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/access"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

func (d *dashboard) showLimits(w http.ResponseWriter, r *http.Request) {
	if key, ok := d.editable(w, r); ok {
		d.renderLimits(w, r, http.StatusOK, key, newLimitsForm(key.Key, key.limits), nil)
	}
}

// limited is a key and the limits that hold for it.
type limited struct {
	policy.Key
	limits []limiter.Limit
}

// editable returns the key that the request is about, or answers the request if its limits cannot be edited.
func (d *dashboard) editable(w http.ResponseWriter, r *http.Request) (limited, bool) {
	key, err := d.key(r)
	if err != nil {
		d.failStore(w, r, "get key", err)
		return limited{}, false
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.failStore(w, r, "read policy", err)
		return limited{}, false
	}
	if key.Status != policy.Active {
		d.fail(w, r, problem{
			status:  http.StatusConflict,
			heading: "This key is revoked",
			advice:  "No call with it is allowed, whatever its limits. They stay as they were.",
		})
		return limited{}, false
	}
	return limitedBy(set, key), true
}

func limitedBy(set *policy.Set, key policy.Key) limited {
	e, _ := set.Effective(key, time.Now())
	return limited{key, e.Limits}
}

// saveLimits saves the form, or with one of its other buttons changes its rows and shows it again.
func (d *dashboard) saveLimits(w http.ResponseWriter, r *http.Request) {
	if !d.parseForm(w, r) {
		return
	}
	key, ok := d.editable(w, r)
	if !ok {
		return
	}
	form, err := readLimitsForm(r.PostForm)
	if err != nil {
		d.fail(w, r, problem{status: http.StatusBadRequest})
		return
	}
	action, index, _ := strings.Cut(r.PostForm.Get("action"), ":")
	switch action {
	case "add":
		form.add()
		d.renderLimits(w, r, http.StatusOK, key, form, nil)
	case "remove":
		form.remove(index)
		d.renderLimits(w, r, http.StatusOK, key, form, nil)
	default:
		d.save(w, r, key, form)
	}
}

// save replaces the key's limits by those of the form: 422 if they are wrong, 409 if the key is no longer what the edit was based on.
func (d *dashboard) save(w http.ResponseWriter, r *http.Request, key limited, form limitsForm) {
	limits, rows := form.limits()
	if !form.valid() {
		d.renderLimits(w, r, http.StatusUnprocessableEntity, key, form, nil)
		return
	}
	if form.version == key.Version && slices.Equal(limits, key.limits) {
		d.toKey(w, r, key.Key, "Nothing was changed: the limits are still "+limitsWords(limits)+".")
		return
	}
	current, err := d.Keys.SetOverride(r.Context(), key.ID, form.version, &policy.Override{Limits: limits, Reason: "edited by hand"}, d.edit(r, ""))
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		form.version = current.Version
		d.renderLimits(w, r, http.StatusConflict, limited{current, overrideLimits(current, key.limits)}, form, limits)
	case errors.As(err, &invalid):
		form.blame(invalid, rows)
		d.renderLimits(w, r, http.StatusUnprocessableEntity, key, form, nil)
	case err != nil:
		d.failStore(w, r, "save limits", err)
	default:
		d.toKey(w, r, current, "Saved: "+limitsWords(key.limits)+" → "+limitsWords(limits)+". The next check obeys.")
	}
}

func overrideLimits(k policy.Key, otherwise []limiter.Limit) []limiter.Limit {
	if k.Override != nil {
		return k.Override.Limits
	}
	return otherwise
}

// edit is what the audit is told about a change that this request makes.
func (d *dashboard) edit(r *http.Request, reason string) policy.Edit {
	actor := access.From(r.Context())
	return policy.Edit{By: audit.Actor{Kind: string(actor.Kind), Name: actor.String()}, Reason: reason}
}

// toKey shows the key's page, with a word on what happened.
func (d *dashboard) toKey(w http.ResponseWriter, r *http.Request, key policy.Key, flash string) {
	d.flash(r, flash, "")
	http.Redirect(w, r, d.keyPath(key), http.StatusSeeOther)
}

// renderLimits shows the form. yours is the edit that met a newer version of the key; nil if there was none.
func (d *dashboard) renderLimits(w http.ResponseWriter, r *http.Request, status int, key limited, form limitsForm, yours []limiter.Limit) {
	name := clip(key.Name, maxName)
	page := templates.LimitsPage{
		Page:    d.page(r, "Limits of "+name),
		Name:    name,
		Key:     d.keyPath(key.Key),
		Action:  d.keyPath(key.Key) + "/limits",
		Version: strconv.FormatInt(form.version, 10),
		Rows:    limitRows(form),
		Units:   units(),
		Methods: methods(),
		Slots:   number(limiter.DefaultSlots),
		Error:   form.wrong,
		Errors:  form.errors(),
		Bounds: "Up to " + strconv.Itoa(limiter.MaxLimits) + " limits, each 1 to " + number(limiter.MaxRequests) +
			" calls in 1 millisecond to 366 days, or in a period of the calendar. A row with nothing filled in is left out.",
		CanAdd: len(form.rows) < limiter.MaxLimits,
	}
	if yours != nil {
		page.Conflict = &templates.Conflict{
			Theirs: eachInWords(key.limits), Yours: eachInWords(yours), Saved: instant(key.Updated), Keep: d.keyPath(key.Key),
		}
	}
	d.render(w, r, status, templates.Limits(page))
}

func limitRows(form limitsForm) []templates.LimitRow {
	rows := make([]templates.LimitRow, len(form.rows))
	for i, in := range form.rows {
		rows[i] = templates.LimitRow{
			Number:    strconv.Itoa(i + 1),
			Field:     rowField(i),
			ID:        "limit-" + strconv.Itoa(i),
			Requests:  field(in.requests),
			Window:    field(in.window),
			Unit:      field(in.unit),
			Algorithm: field(in.algorithm),
			More:      in.more(),
			Denied:    field(in.countDenied),
			Slots:     field(in.slots),
			Zone:      field(in.zone),
			Preview:   preview(in),
		}
		if len(form.rows) > 1 {
			rows[i].Remove = "remove:" + strconv.Itoa(i)
		}
	}
	return rows
}

func field(in input) templates.Field { return templates.Field{Value: in.text, Error: in.wrong} }

// preview reads a copy of the row, so that looking at it leaves no errors in the form.
func preview(in limitInput) string {
	limit := in.limit()
	if in.errors() > 0 {
		return ""
	}
	return fullWords(limit)
}

// units lists the units of a window from the longest, then the periods of the calendar.
func units() []templates.Option {
	var all []templates.Option
	for _, u := range limiter.WindowUnits() {
		all = append(all, templates.Option{Value: u, Text: u + "s"})
	}
	for _, c := range calendars() {
		name := calendarPrefix + c.String()
		all = append(all, templates.Option{Value: name, Text: name})
	}
	return all
}

func methods() []templates.Option {
	names := map[limiter.Algorithm]string{
		limiter.Log:         "log: exact",
		limiter.Counter:     "counter: estimate, least memory",
		limiter.TokenBucket: "token bucket: a burst, then an even rate",
		limiter.FixedWindow: "fixed window: up to twice at a boundary",
	}
	var all []templates.Option
	for _, a := range limiter.Algorithms() {
		text := names[a]
		if text == "" {
			text = a.String()
		}
		option := templates.Option{Value: a.String(), Text: text}
		if a != limiter.Log {
			option.Mark = algorithmWord(a)
		}
		all = append(all, option)
	}
	return all
}
