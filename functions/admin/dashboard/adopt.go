package dashboard

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// adoptForm is a caller that others vouch for, as somebody names it.
type adoptForm struct {
	kind, id, issuer, holder, address input
	name, next, reason                input
	wrong                             string
}

const (
	callerIDLen = 22
	maxIssuer   = 500
	maxHolder   = 500
)

var (
	callerKinds = []templates.Option{
		{Value: string(policy.Token), Text: "the holder of a token (JWT)"},
		{Value: string(policy.Address), Text: "a client address"},
	}
	// adoptNext is what somebody wants of a caller; each is a page of its own.
	adoptNext = []templates.Option{
		{Value: "limits", Text: "override its limits"},
		{Value: "ban", Text: "ban it"},
	}
)

func readAdoptForm(v url.Values) adoptForm {
	return adoptForm{
		kind: typed(v, "kind", maxInput), id: typed(v, "id", maxInput), issuer: typed(v, "issuer", maxIssuer), holder: typed(v, "holder", maxHolder),
		address: typed(v, "address", maxInput), name: typed(v, "name", policy.MaxNameLen+50), next: typed(v, "next", maxInput),
		reason: typed(v, "reason", maxReasonInput),
	}
}

func (f *adoptForm) errors() int {
	return wrongs(f.kind, f.id, f.issuer, f.holder, f.address, f.name, f.next, f.reason)
}

// caller returns the id under which checks know the caller, and notes what is wrong with
// what was typed.
func (f *adoptForm) caller(keys *registry.Store) string {
	f.kind.oneOf(callerKinds)
	f.next.oneOf(adoptNext)
	f.reason.reason()
	id := strings.TrimSpace(f.id.text)
	switch {
	case id != "":
		if len(id) != callerIDLen || !idPattern.MatchString(id) {
			f.id.wrong = "An id of a caller without an API key has 22 letters, digits, - and _."
		}
		return id
	case f.kind.text == string(policy.Address):
		return f.byAddress(keys)
	}
	return f.byToken(keys)
}

func (f *adoptForm) byToken(keys *registry.Store) string {
	if f.issuer.text == "" {
		f.issuer.wrong = "Type the token's iss claim as it is, or the id above."
	}
	if f.holder.text == "" {
		f.holder.wrong = "Type the claim that tells callers apart, mostly sub."
	}
	return keys.TokenCaller(f.issuer.text, f.holder.text)
}

func (f *adoptForm) byAddress(keys *registry.Store) string {
	prefix, ok := parseNetwork(strings.TrimSpace(f.address.text))
	if !ok {
		f.address.wrong = "Type an address such as 203.0.113.7 or 2001:db8::1, or a network such as 2001:db8:1:2::/64."
	}
	return keys.AddressCaller(prefix)
}

// parseNetwork reads an address, masked as the check function does unless it is told
// otherwise, or a network.
func parseNetwork(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), !prefix.Addr().Is4In6()
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	if a = a.Unmap(); a.Is4() {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	prefix, err := a.Prefix(v6Bits)
	return prefix, err == nil
}

func (f *adoptForm) setError(invalid *policy.InvalidError) {
	fields := map[string]*input{"name": &f.name, "id": &f.id, "reason": &f.reason}
	for _, e := range invalid.Fields {
		if in := fields[e.Field]; in != nil {
			in.wrong = sentence(e.Message)
		} else {
			f.wrong = e.Field + ": " + sentence(e.Message)
		}
	}
}

func (d *dashboard) showAdopt(w http.ResponseWriter, r *http.Request) {
	d.renderAdopt(w, r, http.StatusOK, readAdoptForm(r.URL.Query()))
}

// adopt makes a record of a caller and goes on to what it was made for.
func (d *dashboard) adopt(w http.ResponseWriter, r *http.Request) {
	if !d.parseForm(w, r) {
		return
	}
	f := readAdoptForm(r.PostForm)
	id := f.caller(d.Keys)
	if f.errors() > 0 {
		d.renderAdopt(w, r, http.StatusUnprocessableEntity, f)
		return
	}
	next := d.path("/keys/" + id + "/" + f.next.text)
	k, err := d.Keys.Get(r.Context(), id)
	switch {
	case err == nil:
		d.flash(r, "There is a record of this caller already: “"+clip(k.Name, maxName)+"”.", "")
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	case !errors.Is(err, policy.ErrNotFound):
		d.failStore(w, r, "get key", err)
		return
	}
	k, err = d.Keys.Adopt(r.Context(), policy.Kind(f.kind.text), id, strings.TrimSpace(f.name.text), nil, d.edit(r, strings.TrimSpace(f.reason.text)))
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.setError(invalid)
		d.renderAdopt(w, r, http.StatusUnprocessableEntity, f)
	case err != nil && !errors.Is(err, policy.ErrConflict):
		d.failStore(w, r, "adopt caller", err)
	default:
		d.flash(r, "There is a record of “"+clip(k.Name, maxName)+"” now. Nothing else changed yet.", "")
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

func (d *dashboard) renderAdopt(w http.ResponseWriter, r *http.Request, status int, f adoptForm) {
	d.render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.page(r, "Override or ban a caller"),
		Trail:   []templates.Choice{{Text: "Keys", Address: d.path("/keys")}, {Text: "Callers", Address: d.path("/callers")}},
		Heading: "Override or ban a caller",
		Lead: []string{"Callers known by a token or by their address have no record until one is needed. The record holds the name that you give it, " +
			"and what you decide on the next page; of tokens and addresses it holds a hash."},
		Form: &templates.Form{
			Action: d.path("/callers/new"), Fields: f.fields(), After: []templates.FormField{reasonField(f.reason)},
			Error: f.wrong, Errors: f.errors(), Submit: "Go on", Cancel: templates.Choice{Text: "Cancel", Address: d.path("/callers")},
		},
	}))
}

func (f *adoptForm) fields() []templates.FormField {
	id := text("id", "Id, as lists and logs show it", "", maxInput, f.id)
	id.Hint = "Leave it empty to find the caller by what is below."
	issuer := text("issuer", "Of a token: issuer", "https://issuer.example/", maxIssuer, f.issuer)
	holder := text("holder", "Of a token: subject", "ada", maxHolder, f.holder)
	at := text("address", "Address or network", "203.0.113.7", maxInput, f.address)
	return []templates.FormField{
		choice("kind", "The caller is", callerKinds, f.kind), id, issuer, holder, at,
		text("name", "Name, for people", "who this is", policy.MaxNameLen, f.name), choice("next", "In order to", adoptNext, f.next),
	}
}
