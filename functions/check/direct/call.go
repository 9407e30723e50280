// Package direct answers calls of the check function by whom IAM trusts: programs that
// invoke it with lambda:InvokeFunction, or reach it on their own machine. They have
// identified the caller, or pass an API key, and get the decision that an authorizer would
// give, with the headers and the body of an answer.
//
// A call is one JSON object with the member "tidegate". It is read strictly: a member that
// the form does not have, or has twice, is an error that names it. So no event of API
// Gateway is ever a direct call, whatever members a client adds. Errors take nothing.
package direct

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"strings"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
)

// Mistake is a mistake in a direct call. Its text names the member, its bound and what to
// do. Lambda tells programs the names of error types, so this name is part of the form.
type Mistake struct{ text string } //nolint:errname // the form of the door has this name

func (e *Mistake) Error() string { return e.text }

func invalid(format string, args ...any) error { return &Mistake{fmt.Sprintf(format, args...)} }

// Conflict is the error of settling a call that is settled already, or was made too long ago.
type Conflict struct{ cause error } //nolint:errname // as Mistake

func (e *Conflict) Error() string { return e.cause.Error() }

// Unwrap returns enforce.ErrSettled or enforce.ErrExpired.
func (e *Conflict) Unwrap() error { return e.cause }

// Bounds of a call.
const (
	maxBytes   = 64 << 10 // of the whole object
	maxText    = 1024     // bytes of a name, a path or a text
	maxPath    = 16 << 10
	maxAddress = 64
)

// request has the members of every kind of call.
type request struct {
	Tidegate string `json:"tidegate"` // check or settle

	APIKey  *string `json:"apiKey"`
	Subject *string `json:"subject"`
	Issuer  string  `json:"issuer"`
	Plan    string  `json:"plan"`
	Group   string  `json:"group"`

	API     string `json:"api"`
	Stage   string `json:"stage"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Address string `json:"address"`

	Cost   *costs `json:"cost"`
	Settle bool   `json:"settle"`

	Settlement string `json:"settlement"`
}

// costs is a cost: a number, or an object of numbers by unit.
type costs struct{ limits.Costs }

// UnmarshalJSON decodes a number or an object.
func (c *costs) UnmarshalJSON(data []byte) error {
	err := c.Costs.UnmarshalJSON(data)
	var wrong limits.FieldError
	switch {
	case errors.As(err, &wrong):
		return invalid("%s %s", wrong.Field, wrong.Message)
	case err != nil:
		return invalid("cost is %.40s: must be a whole number, or an object of them by unit", data)
	}
	return nil
}

// Is reports whether an event is meant as a direct call: an object that begins to name
// itself one. Decode says whether it is one.
func Is(raw []byte) bool {
	var named struct {
		Tidegate json.RawMessage `json:"tidegate"`
	}
	return json.Unmarshal(raw, &named) == nil && named.Tidegate != nil
}

// decode decodes a call, of a kind unless that is empty. Its errors quote no credential.
func decode(kind string, raw []byte) (*request, error) {
	if len(raw) > maxBytes {
		return nil, invalid("the call has %d bytes: must have at most %d", len(raw), maxBytes)
	}
	if err := checkMembers(raw); err != nil {
		return nil, err
	}
	r := &request{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, decodeError(err)
	}
	if kind != "" && r.Tidegate == "" {
		r.Tidegate = kind
	}
	if kind != "" && r.Tidegate != kind {
		return nil, invalid("tidegate is %.20q: must be %s here, or left out", r.Tidegate, kind)
	}
	switch r.Tidegate {
	case "check":
		return r, r.checkErrors()
	case "settle":
		return r, r.settleErrors()
	}
	return nil, invalid("tidegate is %.20q: must be check or settle", r.Tidegate)
}

// decodeError names the member that cannot be decoded, and not its value.
func decodeError(err error) error {
	var mistake *Mistake
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistake):
		return err
	case errors.As(err, &wrong):
		return invalid("%s is a %s: must be a %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return invalid("the call is not one JSON object")
}

// members are the names of the members of a call.
var members = func() map[string]bool {
	names := map[string]bool{}
	for f := range reflect.TypeFor[request]().Fields() {
		names[f.Tag.Get("json")] = true
	}
	return names
}()

// checkMembers refuses members that a call does not have, by their exact names, those that an
// object has twice, and text after the object: other programs may have read the other one.
func checkMembers(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	type level struct {
		object bool
		name   bool // the next token is a name
		seen   map[string]bool
	}
	var levels []level
	for tokens := 0; ; tokens++ {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && len(levels) == 0 {
			return nil
		}
		if err != nil || tokens > 0 && len(levels) == 0 { // or another value follows
			return invalid("the call is not one JSON object")
		}
		top := len(levels) - 1
		delim, isDelim := token.(json.Delim)
		switch {
		case isDelim && (delim == '}' || delim == ']'):
			levels = levels[:top]
			continue
		case top >= 0 && levels[top].object && levels[top].name:
			name := token.(string)
			switch {
			case top == 0 && !members[name]:
				return invalid("%.40q is not a member of a direct call: leave it out", name)
			case levels[top].seen[name]:
				return invalid("%.40q is there twice: leave one out", name)
			}
			levels[top].seen[name], levels[top].name = true, false
			continue
		case top >= 0:
			levels[top].name = levels[top].object
		}
		if isDelim {
			levels = append(levels, level{object: delim == '{', name: delim == '{', seen: map[string]bool{}})
		}
	}
}

func (r *request) checkErrors() error {
	switch {
	case r.Settlement != "":
		return invalid("settlement belongs to a call of settle: leave it out")
	case r.APIKey == nil && r.Subject == nil:
		return invalid("apiKey and subject are missing: give one of the two")
	case r.APIKey != nil && r.Subject != nil:
		return invalid("apiKey and subject are both there: give one of the two")
	case r.APIKey != nil && (r.Plan != "" || r.Group != "" || r.Issuer != ""):
		return invalid("plan, group and issuer belong to a subject: an API key has its own")
	case r.Subject != nil && (*r.Subject == "" || len(*r.Subject) > maxText):
		return invalid("subject has %d bytes: must have 1 to %d", len(*r.Subject), maxText)
	case r.Group != "" && policy.GroupProblem(r.Group) != "":
		return invalid("group %s", policy.GroupProblem(r.Group))
	case r.Path != "" && r.Path[0] != '/':
		return invalid("path must begin with /")
	case len(r.Path) > maxPath:
		return invalid("path has %d bytes: must have at most %d", len(r.Path), maxPath)
	case r.Path != "" && r.Method == "":
		return invalid("method is missing: a path needs one")
	case strings.ContainsAny(r.Method, " \t"):
		return invalid("method has a space: write the method alone, and the path as path")
	}
	for name, text := range map[string]string{"issuer": r.Issuer, "plan": r.Plan, "api": r.API,
		"stage": r.Stage, "method": r.Method} {
		if len(text) > maxText {
			return invalid("%s has %d bytes: must have at most %d", name, len(text), maxText)
		}
	}
	if _, err := r.address(); err != nil {
		return err
	}
	return r.costErrors()
}

func (r *request) settleErrors() error {
	other := *r
	other.Tidegate, other.Settlement, other.Cost = "", "", nil
	switch {
	case other != request{}:
		return invalid("a call of settle has settlement and cost alone: leave out the rest")
	case r.Settlement == "":
		return invalid("settlement is missing: it is in the context of an allowed call")
	case r.Cost == nil:
		return invalid("cost is missing: what the call really used, 0 to give all back")
	}
	return r.costErrors()
}

func (r *request) costErrors() error {
	if r.Cost == nil {
		return nil
	}
	for _, wrong := range r.Cost.Errors("cost") {
		return invalid("%.60s %s", wrong.Field, wrong.Message)
	}
	return nil
}

// address returns the address of the client; the zero Addr for none.
func (r *request) address() (netip.Addr, error) {
	if r.Address == "" {
		return netip.Addr{}, nil
	}
	a, ok := proxies.ParseAddr(r.Address)
	if !ok || len(r.Address) > maxAddress {
		return netip.Addr{}, invalid("address is not an IP address: write one such as 203.0.113.9")
	}
	return a, nil
}
