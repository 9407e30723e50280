//go:build unix

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/local/site"
)

// task is a task of an operator. It begins with a page that a bookmark opens.
type task struct {
	name  string
	steps []step
}

// deniedPath is the route of yesterday's denied call.
const deniedPath = "/orders/{id}"

// deniedAt returns the time of the denied call: yesterday at 14:03, or 23 hours ago if
// the denial log no longer has that time.
func deniedAt(now time.Time) time.Time {
	y, m, d := now.UTC().AddDate(0, 0, -1).Date()
	at := time.Date(y, m, d, 14, 3, 0, 0, time.UTC)
	if now.Sub(at) > denylog.Retention-time.Hour {
		at = now.Add(time.Hour - denylog.Retention).UTC().Truncate(time.Minute)
	}
	return at
}

// denyOnce records the denial that the operator has to find.
func (s *seed) denyOnce(ctx context.Context) error {
	r := usage.NewRecorder(usage.Options{}, time.Now)
	r.Record(usage.Outcome{Subject: id(s.activeKey(1)), Registered: true, Verdict: usage.Denied,
		Time: deniedAt(time.Now()), Denial: &denylog.Denial{
			Cause: cause.Limit, Plan: "free", Limit: "10 per 10 s", Method: "GET", Path: deniedPath,
			API: "api", Stage: "prod", Network: netip.MustParsePrefix("198.51.100.0/24"),
			RetryAfter: 7 * time.Second, Request: "a-request",
		}})
	return flush(ctx, r, s.Client)
}

const (
	inForm  = "2006-01-02T15:04" // layout of a datetime-local field
	created = "An operator's key"
)

// friday returns the next Friday at 18:00 in the layout of a datetime-local field.
func friday(now time.Time) string {
	days := (int(time.Friday)-int(now.UTC().Weekday())+6)%7 + 1
	return now.UTC().AddDate(0, 0, days).Format(time.DateOnly) + "T18:00"
}

// tasks returns the most common tasks of operators. The bulk change is for the keys whose
// names begin with many.
func tasks(s *seed, many string) []task {
	now, busy := time.Now(), nameOf(s.activeKey(1))
	at := deniedAt(now)
	override := all(search(created), click("Override limits"), see("Add a limit"))
	rotate := all(search(created), click("Rotate secret"), shows("[name=grace]"))
	revoke := all(search(created), click("Revoke"), see("You can restore the key."))
	return []task{
		{"first minute: log in, read *Overview*, open its first caller", []step{
			open("/"), logInAs(site.User), see("Most blocked"), first("#live td a, #live th a"),
			see("Recent denials")}},
		{"create a key", []step{
			open("/keys"), click("Create a key"), see("Environment"), fill("Name", created),
			pick("Plan", "free"),
			click("Create the key"), see("Copy it now")}},
		{"raise its limit until Friday, with preview", []step{
			override, fill("Requests", "50"), fill("Custom date", friday(now)), fill("Reason", "launch"),
			click("Preview"), shows("#preview-title, #effects-title"), click("Save"), see("50 per 10 s")}},
		{"undo that", []step{click("Undo"), see("Reverted")}},
		{"rotate the secret twice, warned", []step{
			rotate, click("Rotate secret"), see("Copy it now"), rotate,
			shows("[role=alert]"), click("Rotate secret anyway"), see("Copy it now")}},
		{"revoke it", []step{revoke, click("Revoke"), see("Key revoked.")}},
		{"change a plan, with preview", []step{
			open("/policies"), click("pro"), fill("Requests", "120"), fill("Reason", "more room"),
			click("Preview"), shows("#preview-title, #effects-title"), click("Save"),
			see("Effective immediately.")}},
		{"revert it from the audit", []step{
			open("/audit"), click("Revert"), fill("Reason", "too much room"), click("Revert"),
			see("Reverted")}},
		{"why a 429 yesterday at 14:03", []step{
			search(busy), click("All denials of this key"), see("Denied by"), fill("From", at.Format(inForm)),
			fill("To", at.Add(time.Minute).Format(inForm)), click("Search"), see(deniedPath),
			see("10 per 10 s")}},
		{"change the plan of 50 keys", []step{
			open("/keys?q=customer"), click("Select all 50 on this page"), click("Change plan"),
			pick("Plan", "enterprise"), fill("Reason", "trial"), click("Change plan"), see("Finished.")}},
		{"revoke every key of a filter", []step{
			open("/keys?q=" + many), click("Select all 50 on this page"), first("a[data-select=all]"),
			click("Revoke"), fill("Reason", "leaked"), confirm, click("Revoke"), see("Finished.")}},
		{"undo that job", []step{click("Undo this job"), fill("Reason", "a mistake"), click("Undo"),
			see("Finished.")}},
		{"import policies, with preview", []step{
			open("/policies/import"), edited("Policy file (YAML)", "/policies.yaml", "- 100 per 10 seconds",
				"- 130 per 10 seconds"),
			fill("Reason", "as agreed"), click("Preview changes"), click("Import"), see("Imported")}},
		{"simulate a limit", []step{open("/simulate"), fill("Requests", "25"), click("Run"), see("would")}},
		{"correct bad input", []step{
			search(busy), click("Override limits"), fill("Requests", "-5"), fill("Window", "0"),
			fill("Reason", "mended"), click("Save"), see("Not saved. Fix 2 fields."), fill("Requests", "20"),
			fill("Window", "10"), click("Save"), see("Effective immediately.")}},
		{"the session ends in the middle of an edit", []step{
			search(busy), click("Override limits"), fill("Requests", "21"), fill("Reason", "kept"),
			endSessions, click("Save"), see("Nothing you typed is lost."), logInAs(site.User),
			click("Back to the form"), shows("[name=reason]"), click("Save"), see("Effective immediately.")}},
		{"a viewer reads everything and changes nothing", []step{
			endSessions, open("/keys?q=" + busy), logInAs(site.Viewer), see(busy), missing("Create a key"),
			open("/policies/plans/1"), see("403")}},
	}
}

// manyKeys is the number of keys above which the bulk change is for a tenth of them.
const manyKeys = 100_000

// doTasks does every task and prints its clicks, fields and seconds. It continues after a
// task that fails, and returns the errors of all.
func (s *seed) doTasks(ctx context.Context, b *browser, out io.Writer) error {
	if err := s.denyOnce(ctx); err != nil {
		return err
	}
	many := "customer-00"
	if s.keys > manyKeys {
		many = "customer-000" // 10,000 of them
	}
	return withOperator(ctx, b.handler, s.Client, func(o *operator) error {
		_, _ = fmt.Fprintf(out, "| task | clicks | fields | seconds |\n|---|---|---|---|\n")
		var failed error
		for _, t := range tasks(s, many) {
			o.clicks, o.fields = 0, 0
			began := time.Now()
			if err := all(t.steps...)(o); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", t.name, err))
				continue
			}
			_, _ = fmt.Fprintf(out, "| %s | %d | %d | %.1f |\n", t.name, o.clicks, o.fields,
				time.Since(began).Seconds())
		}
		return failed
	})
}
