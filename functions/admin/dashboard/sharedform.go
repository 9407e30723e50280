package dashboard

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// sharedForm edits what is configured for all callers: limits of addresses and of all
// together, lists of addresses, plans of callers without a key.
type sharedForm struct {
	perIP, global                limitList
	perIPMode, globalMode        input
	globalLease                  input
	deny, allow, exempt          input
	tokenPlan, addressPlan       input
	denials, window, first, most input // of bans
}

// maxPrefixText bounds a typed list of networks; all fit.
const maxPrefixText = 30_000

func newSharedForm() *sharedForm {
	return &sharedForm{
		perIP: newLimitList("perIP", nil), global: newLimitList("global", nil),
		perIPMode: input{text: string(policy.Enforce)}, globalMode: input{text: string(policy.Enforce)},
	}
}

func (f *sharedForm) fill(s *policy.Set) bool {
	f.perIP, f.global = newLimitList("perIP", s.PerIP.Limits), newLimitList("global", s.Global.Limits)
	f.perIPMode.text, f.globalMode.text = policydoc.ModeText(s.PerIP.Mode), policydoc.ModeText(s.Global.Mode)
	f.globalLease.text = leaseText(s.Global.Lease)
	for in, list := range map[*input][]netip.Prefix{&f.deny: s.Deny, &f.allow: s.Allow, &f.exempt: s.Exempt} {
		in.text = strings.ReplaceAll(policydoc.PrefixText(list), ", ", "\n")
	}
	f.tokenPlan.text, f.addressPlan.text = s.TokenPlan, s.AddressPlan
	if b := s.Bans; b != nil {
		f.denials.text = number(b.Denials)
		for in, d := range map[*input]policy.Duration{&f.window: b.Window, &f.first: b.Base, &f.most: b.Cap} {
			in.text = limiter.ShortWindow(time.Duration(d))
		}
	}
	return true
}

func (f *sharedForm) read(v url.Values) (err error) {
	for name, in := range map[string]*input{
		"perIPMode": &f.perIPMode, "globalMode": &f.globalMode, "globalLease": &f.globalLease, "tokenPlan": &f.tokenPlan, "addressPlan": &f.addressPlan,
		"denials": &f.denials, "window": &f.window, "first": &f.first, "most": &f.most,
	} {
		*in = typed(v, name, maxName+10)
	}
	for name, in := range map[string]*input{"deny": &f.deny, "allow": &f.allow, "exempt": &f.exempt} {
		in.text = v.Get(name)
		if len(in.text) > maxPrefixText {
			in.text, in.wrong = in.text[:maxPrefixText], "This list is too long."
		}
	}
	for _, l := range f.lists() {
		if *l, err = readLimitList(v, l.name); err != nil {
			return err
		}
	}
	return nil
}

func (f *sharedForm) lists() []*limitList { return []*limitList{&f.perIP, &f.global} }

func (f *sharedForm) apply(next *policy.Set) bool {
	f.perIPMode.oneOf(modeOptions())
	f.globalMode.oneOf(modeOptions())
	next.PerIP = policy.Scope{Limits: f.perIP.limits(), Mode: policy.Mode(f.perIPMode.text)}
	next.Global = policy.Scope{Limits: f.global.limits(), Mode: policy.Mode(f.globalMode.text), Lease: f.globalLease.lease()}
	next.Deny, next.Allow, next.Exempt = f.deny.prefixes(), f.allow.prefixes(), f.exempt.prefixes()
	next.TokenPlan, next.AddressPlan = f.tokenPlan.text, f.addressPlan.text
	next.Bans = f.bans()
	return true
}

// prefixes reads networks that line breaks, commas or spaces part; a single address is a
// network too.
func (in *input) prefixes() []netip.Prefix {
	var list []netip.Prefix
	for _, word := range strings.FieldsFunc(in.text, func(c rune) bool { return c == ',' || c == ';' || c <= ' ' }) {
		p, err := netip.ParsePrefix(word)
		if a, single := netip.ParseAddr(word); err != nil && single == nil && a.Zone() == "" {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			in.wrong = "“" + clip(word, 50) + "” is no network. Type such as 203.0.113.0/24 or 2001:db8::/32."
			return nil
		}
		list = append(list, p)
	}
	return list
}

// bans returns nil when nothing is filled in.
func (f *sharedForm) bans() *policy.Bans {
	if strings.TrimSpace(f.denials.text+f.window.text+f.first.text+f.most.text) == "" {
		return nil
	}
	return &policy.Bans{
		Denials: f.denials.whole("Type how many denied calls lead to a ban.", 2, 100_000),
		Window:  f.window.span(), Base: f.first.span(), Cap: f.most.span(),
	}
}

// span reads a time such as 10s, 5m, 1h30m or 2d.
func (in *input) span() policy.Duration {
	d, err := limiter.ParseWindow(strings.TrimSpace(in.text))
	if err != nil {
		in.wrong = "Type a time such as 30s, 5m, 1h or 2d."
	}
	return policy.Duration(d)
}

// lease reads a time that may be left out.
func (in *input) lease() policy.Duration {
	if strings.TrimSpace(in.text) == "" {
		return 0
	}
	d := in.span()
	if in.wrong != "" {
		in.wrong = "Type a time such as 500ms, 1s or 10s, or nothing."
	}
	return d
}

// leaseText is what lease reads.
func leaseText(d policy.Duration) string {
	if d == 0 {
		return ""
	}
	return limiter.ShortWindow(time.Duration(d))
}

// leaseField asks for the lease of limits of all callers.
func leaseField(name, label string, in input) templates.FormField {
	f := text(name, label, "none: every call asks", 15, in)
	f.Hint = "With 1s, environments hold shares for a second and ask less often. Up to a quarter of the shortest window; exact logs only."
	return f
}

func (f *sharedForm) errors() int {
	return f.perIP.errors() + f.global.errors() + wrongs(f.perIPMode, f.globalMode, f.globalLease, f.deny, f.allow, f.exempt, f.tokenPlan, f.addressPlan,
		f.denials, f.window, f.first, f.most)
}

func (f *sharedForm) setError(e policy.FieldError, _ *policy.Set) bool {
	fields := map[string]*input{
		"perIP.mode": &f.perIPMode, "global.mode": &f.globalMode, "global.lease": &f.globalLease, "tokenPlan": &f.tokenPlan, "addressPlan": &f.addressPlan,
		"bans.denials": &f.denials, "bans.window": &f.window, "bans.base": &f.first, "bans.cap": &f.most,
	}
	list, _, _ := strings.Cut(e.Field, "[")
	for name, in := range map[string]*input{"deny": &f.deny, "allow": &f.allow, "exempt": &f.exempt} {
		if list == name {
			in.wrong = sentence(e.Message)
			return true
		}
	}
	if in := fields[e.Field]; in != nil {
		in.wrong = sentence(e.Message)
		return true
	}
	return f.perIP.setError(e, "perIP.limits") || f.global.setError(e, "global.limits")
}

func (f *sharedForm) heading() (text, name string) { return "For all callers", "" }

func area(name, label, hint string, in input) templates.FormField {
	return templates.FormField{ID: name, Label: label, Kind: templates.AreaField, Hint: hint, Sample: "203.0.113.0/24",
		Max: fmt.Sprint(maxPrefixText), Field: field(in)}
}

func (f *sharedForm) view(set *policy.Set) templates.Form {
	plans := append([]templates.Option{{Text: "none: they are refused"}}, planOptions(set)...)
	return templates.Form{
		Lists: []templates.LimitList{
			f.perIP.view("Limits of each client address", "On every call but those of exempt addresses. Empty for none."),
			f.global.view("Limits of all callers together", "On every call but those of exempt addresses. Empty for none."),
		},
		After: []templates.FormField{
			choice("perIPMode", "Mode of the limits of each address", modeOptions(), f.perIPMode),
			choice("globalMode", "Mode of the limits of all together", modeOptions(), f.globalMode),
			leaseField("globalLease", "Lease of the limits of all together", f.globalLease),
			area("deny", "Refused addresses", "Callers from here are refused.", f.deny),
			area("allow", "Admitted addresses", "When there are any, callers from elsewhere are refused.", f.allow),
			area("exempt", "Exempt addresses", "Callers from here are not limited.", f.exempt),
			choice("tokenPlan", "Plan of tokens that name none", plans, f.tokenPlan),
			choice("addressPlan", "Plan of callers known by address alone", plans, f.addressPlan),
			text("denials", "Ban after so many denied calls", "100", 15, f.denials),
			text("window", "within", "1m", 15, f.window),
			text("first", "The first ban lasts", "5m", 15, f.first),
			text("most", "and the longest", "1d", 15, f.most),
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
