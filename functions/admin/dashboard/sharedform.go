package dashboard

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// sharedForm edits what is configured for all callers: limits of addresses and of all
// together, lists of addresses, plans of callers without a key.
type sharedForm struct {
	perIP, global                form.LimitList
	perIPMode, globalMode        form.Input
	globalLease                  form.Input
	deny, allow, exempt          form.Input
	tokenPlan, addressPlan       form.Input
	denials, window, first, most form.Input // of bans
}

func newSharedForm() *sharedForm {
	return &sharedForm{
		perIP: form.NewLimitList("perIP", nil), global: form.NewLimitList("global", nil),
		perIPMode: form.Input{Text: string(policy.Enforce)}, globalMode: form.Input{Text: string(policy.Enforce)},
	}
}

func (f *sharedForm) fill(s *policy.Set) bool {
	f.perIP, f.global = form.NewLimitList("perIP", s.PerIP.Limits), form.NewLimitList("global", s.Global.Limits)
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
		for in, d := range map[*form.Input]policy.Duration{&f.window: b.Window, &f.first: b.Base, &f.most: b.Cap} {
			in.Text = limiter.ShortWindow(time.Duration(d))
		}
	}
	return true
}

func (f *sharedForm) read(v url.Values) (err error) {
	for name, in := range map[string]*form.Input{
		"perIPMode": &f.perIPMode, "globalMode": &f.globalMode, "globalLease": &f.globalLease, "tokenPlan": &f.tokenPlan, "addressPlan": &f.addressPlan,
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

func (f *sharedForm) lists() []*form.LimitList { return []*form.LimitList{&f.perIP, &f.global} }

func (f *sharedForm) apply(next *policy.Set) bool {
	f.perIPMode.CheckOption(modeOptions())
	f.globalMode.CheckOption(modeOptions())
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
func (f *sharedForm) bans() *policy.Bans {
	if strings.TrimSpace(f.denials.Text+f.window.Text+f.first.Text+f.most.Text) == "" {
		return nil
	}
	return &policy.Bans{
		Denials: f.denials.Whole("Type how many denied calls lead to a ban.", 2, 100_000),
		Window:  f.window.Span(), Base: f.first.Span(), Cap: f.most.Span(),
	}
}

// leaseField asks for the lease of limits of all callers.
func leaseField(name, label string, in form.Input) templates.FormField {
	f := form.TextField(name, label, "none: every call asks", 15, in)
	f.Hint = "With 1s, environments hold shares for a second and ask less often. Up to a quarter of the shortest window; exact logs only."
	return f
}

func (f *sharedForm) errors() int {
	return f.perIP.ErrorCount() + f.global.ErrorCount() + form.CountErrors(
		f.perIPMode, f.globalMode, f.globalLease, f.deny, f.allow, f.exempt, f.tokenPlan, f.addressPlan,
		f.denials, f.window, f.first, f.most)
}

func (f *sharedForm) setError(e policy.FieldError, _ *policy.Set) bool {
	fields := map[string]*form.Input{
		"perIP.mode": &f.perIPMode, "global.mode": &f.globalMode, "global.lease": &f.globalLease, "tokenPlan": &f.tokenPlan, "addressPlan": &f.addressPlan,
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

func (f *sharedForm) heading() (text, name string) { return "For all callers", "" }

func (f *sharedForm) view(set *policy.Set) templates.Form {
	plans := append([]templates.Option{{Text: "none: they are refused"}}, planOptions(set)...)
	return templates.Form{
		Lists: []templates.LimitList{
			f.perIP.View(
				"Limits of each client address", "On every call but those of exempt addresses. Empty for none.",
			),
			f.global.View(
				"Limits of all callers together", "On every call but those of exempt addresses. Empty for none.",
			),
		},
		After: []templates.FormField{
			form.ChoiceField("perIPMode", "Mode of the limits of each address", modeOptions(), f.perIPMode),
			form.ChoiceField("globalMode", "Mode of the limits of all together", modeOptions(), f.globalMode),
			leaseField("globalLease", "Lease of the limits of all together", f.globalLease),
			form.AreaField("deny", "Refused addresses", "Callers from here are refused.", f.deny),
			form.AreaField(
				"allow", "Admitted addresses", "When there are any, callers from elsewhere are refused.", f.allow,
			),
			form.AreaField("exempt", "Exempt addresses", "Callers from here are not limited.", f.exempt),
			form.ChoiceField("tokenPlan", "Plan of tokens that name none", plans, f.tokenPlan),
			form.ChoiceField("addressPlan", "Plan of callers known by address alone", plans, f.addressPlan),
			form.TextField("denials", "Ban after so many denied calls", "100", 15, f.denials),
			form.TextField("window", "within", "1m", 15, f.window),
			form.TextField("first", "The first ban lasts", "5m", 15, f.first),
			form.TextField("most", "and the longest", "1d", 15, f.most),
		},
	}
}

func (f *sharedForm) done() string { return "Saved what holds for all callers." }

func (d *dashboard) showShared(w http.ResponseWriter, r *http.Request) {
	d.showSetForm(w, r, setEdit{form: newSharedForm(), path: "/policies/shared"})
}

func (d *dashboard) saveShared(w http.ResponseWriter, r *http.Request) {
	d.saveSetForm(w, r, setEdit{form: newSharedForm(), path: "/policies/shared"})
}
