package command

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Register creates the record of a caller without an API key: the holder of a JWT, or an
// address. With a record, it can have an override or a ban.
type Register struct {
	creation
	Repeatable
	rest.AcceptQuery
	Body struct {
		Kind    string         `json:"kind" enum:"token,address" label:"Caller type"`
		ID      string         `json:"id,omitempty" maxLength:"22" label:"Caller id" hint:"Leave blank to use the fields below." doc:"Id of the caller, as in usage and denials. In place of it: issuer and holder, or network"`
		Issuer  string         `json:"issuer,omitempty" maxLength:"500" label:"Token issuer (iss)" sample:"https://issuer.example/" doc:"For a JWT: its claim iss"`
		Holder  string         `json:"holder,omitempty" maxLength:"500" label:"Token subject" sample:"ada" doc:"For a JWT: the claim that identifies the caller, usually sub"`
		Network string         `json:"network,omitempty" maxLength:"50" label:"Address or network" sample:"203.0.113.7" doc:"For an address: the network that it counts as, or an address" example:"203.0.113.7/32"`
		Name    string         `json:"name" minLength:"1" maxLength:"100" label:"Name" sample:"customer or program"`
		Over    *keys.Override `json:"override,omitempty"`
		Why
	}
	Next string `field:"next" label:"Action"`

	key policy.Key
}

func (*Register) subject() Subject {
	return Subject{Path: "/callers", Trail: []templates.Choice{{Text: "Callers", Address: "/callers"}}}
}

func (*Register) options(name string) []templates.Option {
	switch name {
	case "kind":
		return []templates.Option{{Value: string(policy.Token), Text: "token holder (JWT)"},
			{Value: string(policy.Address), Text: "client address"}}
	case "next":
		return []templates.Option{
			{Value: "limits", Text: "override its limits"},
			{Value: "ban", Text: "ban it"},
		}
	}
	return nil
}

func (c *Register) warnings(ctx context.Context, s *Services) ([]string, error) {
	if c.Body.Over == nil {
		return nil, nil
	}
	o, err := c.Body.Over.Read()
	if err != nil {
		return nil, below("override.", err)
	}
	set, err := s.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return app.OverrideWarnings(set, o.Limits), nil
}

// do implements Command. From a page it leads to the chosen action, also if the caller has a
// record.
func (c *Register) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	id, err := c.callerID(s.Keys)
	if err != nil {
		return Result{}, err
	}
	var o *policy.Override
	if c.Body.Over != nil {
		if o, err = c.Body.Over.Read(); err != nil {
			return Result{}, below("override.", err)
		}
	}
	c.key, err = s.Keys.Adopt(ctx, policy.Kind(c.Body.Kind), id, c.Body.Name, o, e)
	next := "/keys/" + id + "/" + c.Next
	switch {
	case errors.Is(err, policy.ErrConflict) && c.Next != "":
		return Result{Done: "This caller already has a record.", Path: next}, nil
	case errors.Is(err, policy.ErrConflict):
		return Result{}, &Refusal{Status: http.StatusConflict, Heading: "This caller already has a record",
			Advice: "See " + rest.Prefix + "/keys/" + id + ".", Path: "/keys/" + id}
	}
	return Result{
		Done: "Record created: “" + page.Clip(c.key.Name, page.MaxName) + "”. No limits changed yet.",
		Path: next,
	}, err
}

// callerID returns the id by which checks know the caller.
func (c *Register) callerID(known *app.Registry) (string, error) {
	b := &c.Body
	switch {
	case b.ID != "":
		if !app.IsCaller(b.ID) {
			return "", fieldError("id",
				"must be the id of a caller without an API key: 22 letters, digits, - or _")
		}
		return b.ID, nil
	case b.Kind == string(policy.Address):
		network, ok := parseNetwork(strings.TrimSpace(b.Network))
		if !ok {
			return "", fieldError("network",
				"must be an address such as 203.0.113.7, or a network such as 2001:db8:1:2::/64")
		}
		return known.AddressCaller(network), nil
	case b.Issuer == "":
		return "", fieldError("issuer", "and holder are required, unless id is given")
	case b.Holder == "":
		return "", fieldError("holder", "must be the claim that identifies callers, usually sub")
	}
	return known.TokenCaller(b.Issuer, b.Holder), nil
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
