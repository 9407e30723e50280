package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// policy is the part of an IAM policy document that authorizers return.
type policy struct {
	Version   string
	Statement oneOrMore[statement]
}

type statement struct {
	Effect   string
	Action   oneOrMore[string]
	Resource oneOrMore[string]

	// Other elements of AWS. A policy with one of them is refused, since ignoring it
	// could allow what AWS denies.
	NotAction    json.RawMessage
	NotResource  json.RawMessage
	Principal    json.RawMessage
	NotPrincipal json.RawMessage
	Condition    json.RawMessage
}

// oneOrMore is a list of IAM, which may have no brackets around a single element.
type oneOrMore[T any] []T

func (l *oneOrMore[T]) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]T)(l))
	}
	var one T
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*l = oneOrMore[T]{one}
	return nil
}

// effect is the result of a policy.
type effect int

const (
	implicitDeny effect = iota // no statement matches
	explicitDeny
	allow
)

// evaluate returns the policy's effect for invoking arn. A Deny wins over every Allow.
func (p *policy) evaluate(arn string) effect {
	result := implicitDeny
	for _, s := range p.Statement {
		if !s.covers(arn) {
			continue
		}
		if s.Effect == "Deny" {
			return explicitDeny
		}
		result = allow
	}
	return result
}

func (s *statement) covers(arn string) bool {
	const action = "execute-api:invoke" // action names ignore case
	return slices.ContainsFunc(s.Action, func(a string) bool {
		return matches(strings.ToLower(a), action)
	}) &&
		slices.ContainsFunc(s.Resource, func(r string) bool { return matches(r, arn) })
}

func (p *policy) validate() error {
	if len(p.Statement) == 0 {
		return errors.New("policy has no statement")
	}
	for i, s := range p.Statement {
		if err := s.validate(); err != nil {
			return fmt.Errorf("statement %d: %w", i, err)
		}
	}
	return nil
}

func (s *statement) validate() error {
	for _, element := range []json.RawMessage{s.NotAction, s.NotResource, s.Principal, s.NotPrincipal,
		s.Condition} {
		if element != nil {
			return errors.New("only Effect, Action and Resource are supported")
		}
	}
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return fmt.Errorf("effect %q is neither Allow nor Deny", s.Effect)
	case len(s.Action) == 0 || len(s.Resource) == 0:
		return errors.New("it needs Action and Resource")
	case slices.ContainsFunc(s.Resource, func(r string) bool { return len(r) > maxResource }):
		return fmt.Errorf("a resource is over %d characters", maxResource)
	}
	return nil
}
