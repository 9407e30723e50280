package policies

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// maxAllCallers is the maximum size of the form in bytes: three lists of networks, whose
// encoding needs up to three bytes for a character, and the fields of any form.
const maxAllCallers = 3*3*form.MaxPrefixText + 64<<10

// allCallersForm edits what applies to all callers: limits per address and global limits,
// address lists, and the plans of callers without a key.
type allCallersForm struct {
	perIP, global          form.LimitList
	perIPMode, globalMode  form.Input
	deny, allow, exempt    form.Input
	tokenPlan, addressPlan form.Input
}

func allCallersEdit(*http.Request) (edit, bool) {
	return edit{path: "/policies/shared", form: &allCallersForm{
		perIP: form.NewLimitList("perIP", nil), global: form.NewLimitList("global", nil),
		perIPMode:  form.Input{Text: string(policy.Enforce)},
		globalMode: form.Input{Text: string(policy.Enforce)},
	}}, true
}

func (f *allCallersForm) fields() form.Table {
	const maxLen = page.MaxName + 10
	return form.Table{
		{Name: "perIPMode", Input: &f.perIPMode, Max: maxLen, Path: "perIP.mode"},
		{Name: "globalMode", Input: &f.globalMode, Max: maxLen, Path: "global.mode"},
		{Name: "deny", Input: &f.deny},
		{Name: "allow", Input: &f.allow},
		{Name: "exempt", Input: &f.exempt},
		{Name: "tokenPlan", Input: &f.tokenPlan, Max: maxLen},
		{Name: "addressPlan", Input: &f.addressPlan, Max: maxLen},
	}
}

func (f *allCallersForm) lists() []*form.LimitList { return []*form.LimitList{&f.perIP, &f.global} }

func (f *allCallersForm) fill(s *policy.Set) bool {
	f.perIP = form.NewLimitList("perIP", s.PerIP.Limits)
	f.global = form.NewLimitList("global", s.Global.Limits)
	f.perIPMode.Text = policydoc.ModeText(s.PerIP.Mode)
	f.globalMode.Text = policydoc.ModeText(s.Global.Mode)
	f.deny.Text = prefixLines(s.Deny)
	f.allow.Text = prefixLines(s.Allow)
	f.exempt.Text = prefixLines(s.Exempt)
	f.tokenPlan.Text, f.addressPlan.Text = s.TokenPlan, s.AddressPlan
	return true
}

func prefixLines(list []netip.Prefix) string {
	return strings.ReplaceAll(policydoc.PrefixText(list), ", ", "\n")
}

func (f *allCallersForm) read(v url.Values) error {
	for name, in := range map[string]*form.Input{"deny": &f.deny, "allow": &f.allow, "exempt": &f.exempt} {
		in.Text = v.Get(name)
		if len(in.Text) > form.MaxPrefixText {
			in.Text = in.Text[:form.MaxPrefixText]
			in.Error = "Enter at most " + page.Number(form.MaxPrefixText) + " characters."
		}
	}
	return readFields(v, f.fields(), f.lists())
}

func (f *allCallersForm) apply(next *policy.Set) bool {
	f.perIPMode.CheckOption(wording.ModeOptions())
	f.globalMode.CheckOption(wording.ModeOptions())
	next.PerIP = policy.Scope{Limits: f.perIP.Limits(), Mode: policy.Mode(f.perIPMode.Text)}
	next.Global = policy.Scope{Limits: f.global.Limits(), Mode: policy.Mode(f.globalMode.Text)}
	next.Deny, next.Allow, next.Exempt = f.deny.Prefixes(), f.allow.Prefixes(), f.exempt.Prefixes()
	next.TokenPlan, next.AddressPlan = f.tokenPlan.Text, f.addressPlan.Text
	return true
}

func (f *allCallersForm) setError(e policy.FieldError) bool {
	return setFieldError(e, "", f.fields(), nil) ||
		f.perIP.SetError(e, "perIP.limits") || f.global.SetError(e, "global.limits")
}

func (f *allCallersForm) heading() (text, name string) { return "For all callers", "" }

func (f *allCallersForm) view(set *policy.Set) templates.Form {
	plans := append([]templates.Option{{Text: "none: calls are refused"}}, wording.PlanOptions(set)...)
	return templates.Form{
		Lists: []templates.LimitList{
			f.perIP.View("Limits per client address", "For every call except from exempt addresses."),
			f.global.View("Global limits", "For every call except from exempt addresses."),
		},
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
		After: []templates.FormField{
			form.ChoiceField("perIPMode", "Mode of limits per address", wording.ModeOptions(), f.perIPMode),
			form.ChoiceField("globalMode", "Mode of global limits", wording.ModeOptions(), f.globalMode),
		},
	}
}

func (f *allCallersForm) done() string { return "Saved limits for all callers." }
