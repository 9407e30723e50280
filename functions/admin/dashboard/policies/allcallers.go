package policies

import (
	"net/http"
	"net/netip"
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// maxAllCallers is the maximum size of the form in bytes: its limits and three lists of
// networks, whose encoding needs up to three bytes for a character, and the fields of any
// form.
const maxAllCallers = 3*(form.MaxLimitsText+3*form.MaxPrefixText) + 64<<10

// allCallersForm edits what applies to all callers: limits, address lists, and the
// plans of callers without a key.
type allCallersForm struct {
	limits                 form.Limits
	deny, allow, exempt    form.Input
	tokenPlan, addressPlan form.Input
}

func allCallersEdit(*http.Request) (edit, bool) {
	return edit{path: "/policies/all",
		form: &allCallersForm{limits: form.Limits{Most: limits.MaxPolicyLimits}}}, true
}

func (f *allCallersForm) fields() form.Table {
	const maxLen = page.MaxName + 10
	return form.Table{
		{Name: "limits", Limits: &f.limits},
		{Name: "deny", Input: &f.deny, Max: form.MaxPrefixText + 1},
		{Name: "allow", Input: &f.allow, Max: form.MaxPrefixText + 1},
		{Name: "exempt", Input: &f.exempt, Max: form.MaxPrefixText + 1},
		{Name: "tokenPlan", Input: &f.tokenPlan, Max: maxLen},
		{Name: "addressPlan", Input: &f.addressPlan, Max: maxLen},
	}
}

func (f *allCallersForm) fill(s *policy.Set) bool {
	f.limits.Set(s.Limits)
	f.deny.Text = prefixLines(s.Deny)
	f.allow.Text = prefixLines(s.Allow)
	f.exempt.Text = prefixLines(s.Exempt)
	f.tokenPlan.Text, f.addressPlan.Text = s.TokenPlan, s.AddressPlan
	return true
}

func prefixLines(list []netip.Prefix) string {
	return strings.ReplaceAll(policydoc.PrefixText(list), ", ", "\n")
}

func (f *allCallersForm) apply(next *policy.Set) bool {
	next.Limits = f.limits.List()
	next.Deny, next.Allow, next.Exempt = f.deny.Prefixes(), f.allow.Prefixes(), f.exempt.Prefixes()
	next.TokenPlan, next.AddressPlan = f.tokenPlan.Text, f.addressPlan.Text
	return true
}

func (f *allCallersForm) setError(e policy.FieldError) bool {
	return f.fields().SetError(e, "")
}

func (f *allCallersForm) heading() (text, name string) { return "For all callers", "" }

func (f *allCallersForm) view(set *policy.Set) templates.Form {
	plans := append([]templates.Option{{Text: "none: calls are refused"}}, wording.PlanOptions(set)...)
	return templates.Form{
		Fields: []templates.FormField{form.LimitsField("Beside those of plans. Each says for whom it "+
			"counts: each caller, each group, each address, each {parameter}, or together.", f.limits)},
		Rare: []templates.RareFields{
			{Summary: "Refused, allowed and exempt addresses", Fields: []templates.FormField{
				form.AreaField("deny", "Refused addresses", "Calls from here are refused.", f.deny),
				form.AreaField("allow", "Allowed addresses", "If set, calls from elsewhere are refused.",
					f.allow),
				form.AreaField("exempt", "Exempt addresses", "Calls from here are not limited.", f.exempt)}},
			{Summary: "Plans of callers without a key", Fields: []templates.FormField{
				form.ChoiceField("tokenPlan", "Default plan for JWTs", plans, f.tokenPlan),
				form.ChoiceField("addressPlan", "Default plan for addresses", plans, f.addressPlan)}},
		},
	}
}

func (f *allCallersForm) done() string { return "Saved limits for all callers." }
