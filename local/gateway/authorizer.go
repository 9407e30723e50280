package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/local/lambda"
)

// The authorizer's errors that clients can distinguish.
var (
	errUnauthorized  = errors.New("unauthorized")
	errFailed        = errors.New("authorizer failed")
	errConfiguration = errors.New("authorizer's answer is malformed")
)

// verdict is a well-formed answer of an authorizer.
type verdict struct {
	effect    effect
	principal string
	context   map[string]any // numbers are json.Number
}

// authorize invokes the function with an event. The caller checks the answer.
func authorize(ctx context.Context, fn Invoker, limit time.Duration, event any) ([]byte, error) {
	answer, err := call(ctx, fn, limit, event)
	var reported *lambda.FunctionError
	if errors.As(err, &reported) && reported.Message == "Unauthorized" {
		return nil, errUnauthorized
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFailed, err)
	}
	return answer, nil
}

// policyVerdict parses the answer of an authorizer that returns an IAM policy.
func policyVerdict(answer []byte, arn string) (verdict, error) {
	var result struct {
		PrincipalID    string         `json:"principalId"`
		PolicyDocument *policy        `json:"policyDocument"`
		Context        map[string]any `json:"context"`
	}
	if err := decode(answer, &result); err != nil {
		return verdict{}, err
	}
	switch {
	case result.PrincipalID == "":
		return verdict{}, fmt.Errorf("%w: it has no principalId", errConfiguration)
	case result.PolicyDocument == nil:
		return verdict{}, fmt.Errorf("%w: it has no policyDocument", errConfiguration)
	}
	if err := result.PolicyDocument.validate(); err != nil {
		return verdict{}, fmt.Errorf("%w: %w", errConfiguration, err)
	}
	return verdict{result.PolicyDocument.evaluate(arn), result.PrincipalID, result.Context}, nil
}

// simpleVerdict parses the answer of an HTTP API authorizer with simple responses.
func simpleVerdict(answer []byte) (verdict, error) {
	var result struct {
		IsAuthorized *bool          `json:"isAuthorized"`
		Context      map[string]any `json:"context"`
	}
	if err := decode(answer, &result); err != nil {
		return verdict{}, err
	}
	if result.IsAuthorized == nil {
		return verdict{}, fmt.Errorf("%w: it has no isAuthorized", errConfiguration)
	}
	v := verdict{effect: explicitDeny, context: result.Context}
	if *result.IsAuthorized {
		v.effect = allow
	}
	return v, nil
}

func decode(answer []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errConfiguration, err)
	}
	return nil
}

// requireScalars refuses context values that formats before 2.0 cannot represent. It also
// refuses the key claims, which AWS reserves for its own authorizers.
func (v verdict) requireScalars() error {
	for key, value := range v.context {
		if key == "claims" {
			return fmt.Errorf("%w: claims is a reserved key of the context", errConfiguration)
		}
		if _, ok := scalarText(value); !ok {
			return fmt.Errorf("%w: context value %s is not a string, number or boolean",
				errConfiguration, key)
		}
	}
	return nil
}

// addTo adds the context to the variables of expressions, with the prefix authorizer.
func (v verdict) addTo(variables map[string]string) {
	if v.principal != "" {
		variables["authorizer.principalId"] = v.principal
	}
	for key, value := range v.context {
		if text, ok := scalarText(value); ok {
			variables["authorizer."+key] = text
		}
	}
}

// scalarText returns a string, number or boolean as text.
func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

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

// matches reports whether text matches the pattern, in which * stands for any characters
// and ? for one. Patterns come from an authorizer's answer, so the time is bounded by the
// product of the lengths.
func matches(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last *, and the end of the text that it matches
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
