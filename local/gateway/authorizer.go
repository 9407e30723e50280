package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("%w: encode the event: %w", errFailed, err)
	}
	answer, err := call(ctx, fn, limit, payload)
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
