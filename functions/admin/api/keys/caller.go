package keys

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

type (
	adoptInput struct {
		Body struct {
			rest.WithReason
			Kind    string    `json:"kind" enum:"token,address"`
			ID      string    `json:"id,omitempty" maxLength:"22" doc:"Id of the caller, as in usage and denials. In place of it: issuer and holder, or network"`
			Issuer  string    `json:"issuer,omitempty" maxLength:"500" doc:"For a JWT: its claim iss"`
			Holder  string    `json:"holder,omitempty" maxLength:"500" doc:"For a JWT: the claim that identifies the caller, usually sub"`
			Network string    `json:"network,omitempty" maxLength:"50" doc:"For an address: the network that it counts as" example:"203.0.113.7/32"`
			Name    string    `json:"name" minLength:"1" maxLength:"100"`
			Over    *Override `json:"override,omitempty"`
		}
	}
	adoptOutput struct {
		Location string `header:"Location"`
		ETag     string `header:"ETag"`
		Body     Key
	}
)

func (ops operations) registerCallers(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /callers", ID: "list-callers", Role: auth.Viewer,
		Summary: "List callers without a key, override or ban",
		Details: "GET /keys with order today lists the others.",
	}, rest.List(ops.keys.Callers))
	rest.Register(group, rest.Operation{
		Pattern: "POST /callers", ID: "adopt-caller", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Create the record of a caller without an API key",
		Details: "With a record, the holder of a JWT or an address can have an override or a ban, by the " +
			"operations on keys.",
	}, ops.adopt)
}

func (ops operations) adopt(ctx context.Context, in *adoptInput) (*adoptOutput, error) {
	b := in.Body
	var details rest.Details
	id := ops.callerID(in, &details)
	o := b.Over.read("override.", &details)
	if err := details.Err(); err != nil {
		return nil, err
	}
	k, err := ops.keys.Adopt(ctx, policy.Kind(b.Kind), id, b.Name, o, app.NewEdit(ctx, b.Reason))
	if errors.Is(err, policy.ErrConflict) {
		return nil, rest.NewProblem(http.StatusConflict,
			"This caller already has a record: "+rest.Prefix+"/keys/"+id)
	}
	if err != nil {
		return nil, err
	}
	return &adoptOutput{rest.Prefix + "/keys/" + k.ID, rest.ETag(k.Version), keyOf(k)}, nil
}

// callerID returns the id by which checks know the caller. It adds errors to details.
func (ops operations) callerID(in *adoptInput, details *rest.Details) string {
	b := in.Body
	switch {
	case b.ID != "":
		if !app.IsCaller(b.ID) {
			details.Add("id",
				errors.New("must be the id of a caller without an API key: 22 letters, digits, - or _"))
		}
		return b.ID
	case b.Kind == string(policy.Address):
		prefix, err := netip.ParsePrefix(b.Network)
		if err != nil || prefix.Addr().Is4In6() {
			details.Add("network",
				errors.New("must be a network such as 203.0.113.7/32 or 2001:db8:1:2::/64"))
			return ""
		}
		return ops.keys.AddressCaller(prefix.Masked())
	}
	if b.Issuer == "" || b.Holder == "" {
		details.Add("issuer", errors.New("and holder are required, unless id is given"))
	}
	return ops.keys.TokenCaller(b.Issuer, b.Holder)
}
