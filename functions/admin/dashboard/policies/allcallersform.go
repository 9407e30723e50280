package policies

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// allCallersForm edits what is configured for all callers: limits of addresses and of all
// together, lists of addresses, plans of callers without a key.
type allCallersForm struct {
	perIP, global                form.LimitList
	perIPMode, globalMode        form.Input
	globalLease                  form.Input
	deny, allow, exempt          form.Input
	tokenPlan, addressPlan       form.Input
	denials, window, first, most form.Input // of bans
}

func newAllCallersForm() *allCallersForm {
	return &allCallersForm{
		perIP: form.NewLimitList("perIP", nil), global: form.NewLimitList("global", nil),
		perIPMode:  form.Input{Text: string(policy.Enforce)},
		globalMode: form.Input{Text: string(policy.Enforce)},
	}
}

func (f *allCallersForm) fill(s *policy.Set) bool {
	f.perIP, f.global = form.NewLimitList("perIP", s.PerIP.Limits),
		form.NewLimitList("global", s.Global.Limits)
	f.perIPMode.Text, f.globalMode.Text = policydoc.ModeText(s.PerIP.Mode), policydoc.ModeText(s.Global.Mode)
	f.globalLease.Text = form.LeaseText(s.Global.Lease)
	for in, list := range map[*form.Input][]netip.Prefix{
		&f.deny: s.Deny, &f.allow: s.Allow, &f.exempt: s.Exempt,
	} {
		in.Text = strings.ReplaceAll(policydoc.PrefixText(list), ", ", "\n")
	}
	f.tokenPlan.Text, f.addressPlan.Text = s.TokenPlan, s.AddressPlan
	if b := s.Bans; b != nil {
		f.denials.Text = page.Number(b.Denials)
		for in, d := range map[*form.Input]policy.Duration{&f.window: b.Window, &f.first: b.Base,
			&f.most: b.Cap} {
			in.Text = limiter.ShortWindow(time.Duration(d))
		}
	}
	return true
}

func (f *allCallersForm) read(v url.Values) (err error) {
	for name, in := range map[string]*form.Input{
		"perIPMode": &f.perIPMode, "globalMode": &f.globalMode, "globalLease": &f.globalLease,
		"tokenPlan": &f.tokenPlan, "addressPlan": &f.addressPlan,
		"denials": &f.denials, "window": &f.window, "first": &f.first, "most": &f.most,
	} {
		*in = form.Typed(v, name, page.MaxName+10)
	}
	for name, in := range map[string]*form.Input{"deny": &f.deny, "allow": &f.allow, "exempt": &f.exempt} {
		in.Text = v.Get(name)
		if len(in.Text) > form.MaxPrefixText {
			in.Text, in.Error = in.Text[:form.MaxPrefixText], "This list is too long."
		}
	}
	for _, l := range f.lists() {
		if *l, err = form.ReadLimitList(v, l.Name); err != nil {
			return err
		}
	}
	return nil
}

func (f *allCallersForm) lists() []*form.LimitList { return []*form.LimitList{&f.perIP, &f.global} }

func (f *allCallersForm) apply(next *policy.Set) bool {
	f.perIPMode.CheckOption(wording.ModeOptions())
	f.globalMode.CheckOption(wording.ModeOptions())
	next.PerIP = policy.Scope{Limits: f.perIP.Limits(), Mode: policy.Mode(f.perIPMode.Text)}
	next.Global = policy.Scope{
		Limits: f.global.Limits(), Mode: policy.Mode(f.globalMode.Text), Lease: f.globalLease.Lease(),
	}
	next.Deny, next.Allow, next.Exempt = f.deny.Prefixes(), f.allow.Prefixes(), f.exempt.Prefixes()
	next.TokenPlan, next.AddressPlan = f.tokenPlan.Text, f.addressPlan.Text
	next.Bans = f.bans()
	return true
}

// bans returns nil when nothing is filled in.
func (f *allCallersForm) bans() *policy.Bans {
	if strings.TrimSpace(f.denials.Text+f.window.Text+f.first.Text+f.most.Text) == "" {
		return nil
	}
	return &policy.Bans{
		Denials: f.denials.Whole("Enter the number of denied calls.", 2, 100_000),
		Window:  f.window.Span(), Base: f.first.Span(), Cap: f.most.Span(),
	}
}

// leaseField asks for the lease of limits of all callers.
func leaseField(name, label string, in form.Input) templates.FormField {
	f := form.TextField(name, label, "no lease", 15, in)
	f.Hint = "Environments take permits for this long and ask less often. At most a quarter of the " +
		"shortest window; logs only."
	return f
}

func (f *allCallersForm) errors() int {
	return f.perIP.ErrorCount() + f.global.ErrorCount() + form.CountErrors(
		f.perIPMode, f.globalMode, f.globalLease, f.deny, f.allow, f.exempt, f.tokenPlan, f.addressPlan,
		f.denials, f.window, f.first, f.most)
}

func (f *allCallersForm) setError(e policy.FieldError, _ *policy.Set) bool {
	fields := map[string]*form.Input{
		"perIP.mode": &f.perIPMode, "global.mode": &f.globalMode, "global.lease": &f.globalLease,
		"tokenPlan": &f.tokenPlan, "addressPlan": &f.addressPlan,
		"bans.denials": &f.denials, "bans.window": &f.window, "bans.base": &f.first, "bans.cap": &f.most,
	}
	list, _, _ := strings.Cut(e.Field, "[")
	for name, in := range map[string]*form.Input{"deny": &f.deny, "allow": &f.allow, "exempt": &f.exempt} {
		if list == name {
			in.Error = form.Sentence(e.Message)
			return true
		}
	}
	if in := fields[e.Field]; in != nil {
		in.Error = form.Sentence(e.Message)
		return true
	}
	return f.perIP.SetError(e, "perIP.limits") || f.global.SetError(e, "global.limits")
}

func (f *allCallersForm) heading() (text, name string) { return "For all callers", "" }

func (f *allCallersForm) view(set *policy.Set) templates.Form {
	plans := append([]templates.Option{{Text: "none: refused"}}, wording.PlanOptions(set)...)
	return templates.Form{
		Lists: []templates.LimitList{
			f.perIP.View(
				"Limits per client address", "For every call, except from exempt addresses.",
			),
			f.global.View(
				"Global limits", "For every call, except from exempt addresses.",
			),
		},
		After: []templates.FormField{
			form.ChoiceField("perIPMode", "Mode of limits per address", wording.ModeOptions(), f.perIPMode),
			form.ChoiceField("globalMode", "Mode of global limits", wording.ModeOptions(), f.globalMode),
			leaseField("globalLease", "Lease of global limits", f.globalLease),
			form.AreaField("deny", "Refused addresses", "Calls from here are refused.", f.deny),
			form.AreaField(
				"allow", "Allowed addresses", "If set, calls from elsewhere are refused.", f.allow,
			),
			form.AreaField("exempt", "Exempt addresses", "Calls from here are not limited.", f.exempt),
			form.ChoiceField("tokenPlan", "Default plan for JWTs", plans, f.tokenPlan),
			form.ChoiceField("addressPlan", "Default plan for addresses", plans, f.addressPlan),
			form.TextField("denials", "Denied calls before a ban", "100", 15, f.denials),
			form.TextField("window", "within", "1m", 15, f.window),
			form.TextField("first", "First ban", "5m", 15, f.first),
			form.TextField("most", "Longest ban", "1d", 15, f.most),
		},
	}
}

func (f *allCallersForm) done() string { return "Saved limits for all callers." }

func (d *pages) showAllCallers(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, setEdit{form: newAllCallersForm(), path: "/policies/shared"})
}

func (d *pages) saveAllCallers(w http.ResponseWriter, r *http.Request) {
	d.saveSetForm(w, r, setEdit{form: newAllCallersForm(), path: "/policies/shared"})
}
