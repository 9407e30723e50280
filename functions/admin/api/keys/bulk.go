package keys

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

type (
	bulkInput struct {
		rest.AcceptQuery
		Body struct {
			rest.WithReason
			Do       string      `json:"do" enum:"plan,override,end,reset,revoke,ban,unban,tag,untag,group,expiry" doc:"Change to make to each key; end removes overrides, untag removes tags"`
			IDs      []string    `json:"ids,omitempty" maxItems:"100" doc:"Ids of the keys to change"`
			Filter   *BulkFilter `json:"filter,omitempty" doc:"In place of ids: change all keys that match; {} matches every key"`
			Plan     string      `json:"plan,omitempty" maxLength:"100" doc:"With do plan: name of the new plan"`
			Override *Override   `json:"override,omitempty" doc:"With do override: the new limits"`
			Until    *time.Time  `json:"until,omitempty" doc:"With do ban: when the ban ends. With do expiry: the new expiry; if omitted, never"`
			Tags     []string    `json:"tags,omitempty" maxItems:"10" doc:"With do tag or untag: the tags to add or remove"`
			Group    string      `json:"group,omitempty" maxLength:"64" doc:"With do group: the new group; if omitted, none"`
			Confirm  *int64      `json:"confirm,omitempty" minimum:"0" doc:"Number of keys that match. Needed in the first request of revoke, reset or ban with a filter"`
			After    string      `json:"after,omitempty" maxLength:"1000" doc:"The value of next in the previous response"`
		}
	}
	bulkOutput struct {
		Body struct {
			Change   uint64         `json:"change,omitempty" doc:"Number of the change that this request made; absent if no key changed"`
			Done     int64          `json:"done" doc:"Keys changed by this request"`
			Skipped  int64          `json:"skipped" doc:"Keys that needed no change or are not active"`
			Failed   int            `json:"failed" doc:"Keys that could not be changed"`
			Failures []UnchangedKey `json:"failures"`
			More     bool           `json:"more,omitempty" doc:"More keys match than at the begin; the others were not changed"`
			Next     string         `json:"next,omitempty" doc:"Repeat the request with after set to this value; absent after the last step"`
		}
	}
)

// UnchangedKey is a key that could not be changed, and the reason.
type UnchangedKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why" example:"tags too many: at most 10"`
}

// BulkFilter selects the keys of a bulk change.
type BulkFilter struct {
	Prefix string `json:"prefix,omitempty" maxLength:"100"`
	Plan   string `json:"plan,omitempty" maxLength:"100" doc:"Name of a plan"`
	Group  string `json:"group,omitempty" maxLength:"64"`
	State  string `json:"state,omitempty" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable"`
}

func (ops operations) registerBulk(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "POST /bulk", ID: "change-keys", Role: auth.Editor,
		Deadline: auth.Long, Summary: "Change up to 1,000 keys of a selection",
		Details: "Makes one change of the audit, which can be undone. Repeat the request with after set to " +
			"next until next is absent. A repeated request changes no key twice.",
	}, ops.changeKeys)
}

func (ops operations) changeKeys(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	edit := app.NewEdit(ctx, in.Body.Reason)
	if err := edit.Validate(); err != nil {
		return nil, err
	}
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	b, err := in.bulk(set)
	if err != nil {
		return nil, err
	}
	after := in.Body.After
	if after == "" {
		err = ops.beginBulk(ctx, set, in, &b)
	} else {
		b.Total, after, err = readAfter(after)
	}
	if err != nil {
		return nil, err
	}
	s, err := ops.keys.StepBulk(ctx, set, b, after, edit)
	if err != nil {
		return nil, err
	}
	out := &bulkOutput{}
	out.Body.Change, out.Body.Done, out.Body.Skipped = s.Change, s.Done, s.Skipped
	out.Body.Failed, out.Body.More, out.Body.Failures = len(s.Failures), s.More, []UnchangedKey{}
	for _, f := range s.Failures {
		out.Body.Failures = append(out.Body.Failures, UnchangedKey{f.ID, f.Name, app.FailureText(f.Why)})
	}
	if s.Next != "" {
		out.Body.Next = strconv.FormatInt(b.Total, 10) + " " + s.Next
	}
	return out, nil
}

// readAfter reads the next of the request before: the number of keys that matched at the
// begin, and the position.
func readAfter(text string) (total int64, after string, err error) {
	number, after, _ := strings.Cut(text, " ")
	if total, err = strconv.ParseInt(number, 10, 64); err != nil || after == "" {
		return 0, "", rest.Invalid("body.after", "must be the value of next from the previous request")
	}
	return total, after, nil
}

// beginBulk counts the keys and checks the change. It refuses a change that harms callers
// unless the request sends the number of keys that match.
func (ops operations) beginBulk(ctx context.Context, set *policy.Set, in *bulkInput, b *app.Bulk) error {
	var err error
	b.Total, err = ops.keys.CountMatching(ctx, set, b.IDs, b.Filter)
	if errors.Is(err, app.ErrUncounted) {
		return rest.Invalid("body.filter", "matches "+err.Error()+": narrow it by a prefix")
	}
	if err != nil {
		return err
	}
	if sent := in.Body.Confirm; b.NeedsCount() && sent == nil || sent != nil && *sent != b.Total {
		return rest.Invalid("body.confirm",
			fmt.Sprintf("must be %d, the number of keys that match", b.Total))
	}
	return ops.keys.CheckBulk(ctx, set, *b)
}

// bulk returns the change that the request describes.
func (in *bulkInput) bulk(set *policy.Set) (app.Bulk, error) {
	body := in.Body
	var details rest.Details
	add := func(location, message string) {
		details = append(details, rest.Detail{Location: "body." + location, Message: message})
	}
	if (len(body.IDs) == 0) == (body.Filter == nil) {
		add("ids", "or filter is required, but not both")
	}
	if _, known := set.Plan(body.Plan); body.Do == app.Plan && !known {
		add("plan", "no plan has this name")
	}
	b := app.Bulk{KeyChange: app.KeyChange{Do: body.Do, Accepts: in.Accepts}, IDs: body.IDs}
	switch body.Do {
	case app.Plan:
		b.Plan = body.Plan
		b = b.Numbered(set)
	case app.Override:
		if body.Override == nil {
			add("override", "is required with this do")
		}
		b.Override = body.Override.read("override.", &details)
	case app.Ban, app.SetExpiry:
		details.Add("until", inFuture(body.Until, "to block keys now, revoke them"))
		b.Until = schema.TimeOf(body.Until)
	case app.AddTags, app.RemoveTags:
		b.Tags = body.Tags
	case app.SetGroup:
		b.Group = body.Group
	}
	if err := details.Err(); err != nil {
		return b, err
	}
	if f := body.Filter; f != nil {
		selected, err := filter(set, f.Prefix, f.Plan, f.State, "body.filter.plan")
		selected.Group = f.Group
		b.Filter = &selected
		return b, err
	}
	return b, nil
}
