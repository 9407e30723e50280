package dashboard

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// adoptForm is the form that creates a record of a caller who has no API key.
type adoptForm struct {
	kind, id, issuer, holder, address form.Input
	name, next, reason                form.Input
	problem                           string // an error that belongs to no field
}

// Bounds of typed text, in characters.
const (
	maxIssuer = 500
	maxHolder = 500
)

var (
	callerKinds = []templates.Option{
		{Value: string(policy.Token), Text: "token holder (JWT)"},
		{Value: string(policy.Address), Text: "client address"},
	}
	// adoptNext holds the actions that may follow. A value is the last path segment of
	// the action's page.
	adoptNext = []templates.Option{
		{Value: "limits", Text: "override its limits"},
		{Value: "ban", Text: "ban it"},
	}
)

func (f *adoptForm) table() form.Table {
	return form.Table{
		{Name: "kind", Input: &f.kind, Max: form.MaxInput},
		{Name: "id", Input: &f.id, Max: form.MaxInput},
		{Name: "issuer", Input: &f.issuer, Max: maxIssuer},
		{Name: "holder", Input: &f.holder, Max: maxHolder},
		{Name: "address", Input: &f.address, Max: form.MaxInput},
		{Name: "name", Input: &f.name, Max: maxNameInput},
		{Name: "next", Input: &f.next, Max: form.MaxInput},
		{Name: "reason", Input: &f.reason, Max: form.MaxReasonInput},
	}
}

func readAdoptForm(v url.Values) adoptForm {
	var f adoptForm
	f.table().Read(v)
	return f
}

// callerID validates the form and returns the id under which checks know the caller.
func (f *adoptForm) callerID(keys *app.Registry) string {
	f.kind.CheckOption(callerKinds)
	f.next.CheckOption(adoptNext)
	f.reason.CheckReason()
	id := strings.TrimSpace(f.id.Text)
	switch {
	case id != "":
		if !app.IsCaller(id) {
			f.id.Error = "Enter an id of 22 letters, digits, - and _, as in the list of callers."
		}
		return id
	case f.kind.Text == string(policy.Address):
		network, ok := parseNetwork(strings.TrimSpace(f.address.Text))
		if !ok {
			f.address.Error = "Enter an address such as 203.0.113.7 or 2001:db8::1, or a network such as " +
				"2001:db8:1:2::/64."
		}
		return keys.AddressCaller(network)
	}
	if f.issuer.Text == "" {
		f.issuer.Error = "Enter the token's iss claim, or the id above."
	}
	if f.holder.Text == "" {
		f.holder.Error = "Enter the claim that identifies callers, usually sub."
	}
	return keys.TokenCaller(f.issuer.Text, f.holder.Text)
}

// parseNetwork parses a network, or an address, which it masks to the check function's
// default prefix length.
func parseNetwork(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), !prefix.Addr().Is4In6()
	}
	_, network, ok := app.ParseAddress(text)
	return network, ok
}

func (d *dashboard) showAdopt(w http.ResponseWriter, r *http.Request) error {
	return d.renderAdopt(w, r, http.StatusOK, readAdoptForm(r.URL.Query()))
}

// adopt creates a record of a caller, unless there is one, and redirects to the chosen
// action.
func (d *dashboard) adopt(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	f := readAdoptForm(r.PostForm)
	if form.Resumes(r) {
		return d.renderAdopt(w, r, http.StatusOK, f)
	}
	id := f.callerID(d.Keys)
	if f.table().ErrorCount() > 0 {
		return d.renderAdopt(w, r, http.StatusUnprocessableEntity, f)
	}
	next := d.Path("/keys/" + id + "/" + f.next.Text)
	k, err := d.Keys.Get(r.Context(), id)
	switch {
	case err == nil:
		d.Flash(r, "This caller already has a record: “"+page.Clip(k.Name, page.MaxName)+"”.", "")
		return page.Redirect(w, r, next)
	case !errors.Is(err, policy.ErrNotFound):
		return page.Failed("get key", err)
	}
	edit := app.NewEdit(r.Context(), f.reason.Text)
	k, err = d.Keys.Adopt(r.Context(), policy.Kind(f.kind.Text), id, f.name.Text, nil, edit)
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.problem = f.table().SetErrors(invalid)
		return d.renderAdopt(w, r, http.StatusUnprocessableEntity, f)
	case err != nil && !errors.Is(err, policy.ErrConflict):
		return page.Failed("adopt caller", err)
	default:
		d.Flash(r, "Record created: “"+page.Clip(k.Name, page.MaxName)+"”. No limits changed yet.", "")
		return page.Redirect(w, r, next)
	}
}

func (d *dashboard) renderAdopt(w http.ResponseWriter, r *http.Request, status int, f adoptForm) error {
	id := form.TextField("id", "Caller id", "", form.MaxInput, f.id)
	id.Hint = "Leave blank to use the fields below."
	return d.Render(w, r, status, templates.FormOf(templates.FormPage{
		Page:    d.Page(r, "Override or ban a caller"),
		Trail:   d.callersTrail(),
		Heading: "Override or ban a caller",
		Lead: []string{"An override or a ban needs a record of the caller. It stores the name, " +
			"your settings and a hash of the token's subject or the address."},
		Form: &templates.Form{
			Action: d.Path("/callers/new"),
			Fields: []templates.FormField{
				form.ChoiceField("kind", "Caller type", callerKinds, f.kind),
				id,
				form.TextField("issuer", "Token issuer (iss)", "https://issuer.example/", maxIssuer,
					f.issuer),
				form.TextField("holder", "Token subject", "ada", maxHolder, f.holder),
				form.TextField("address", "Address or network", "203.0.113.7", form.MaxInput, f.address),
				form.TextField("name", "Name", "customer or program", policy.MaxNameLen, f.name),
				form.ChoiceField("next", "Action", adoptNext, f.next),
			},
			After:  []templates.FormField{form.ReasonField(f.reason)},
			Error:  f.problem,
			Errors: f.table().ErrorCount(),
			Submit: "Continue",
			Cancel: templates.Choice{Text: "Cancel", Address: d.Path("/callers")},
		},
	}))
}
