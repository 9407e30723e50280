// Package authorizer answers API Gateway's Lambda authorizer events. It identifies the
// caller, asks a Checker about the limits, and builds the answer for client and backend.
package authorizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"tidegate/functions/check/identity"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/jwt"
	"tidegate/internal/policy"
)

// ErrUnauthorized is the one error that callers see. API Gateway turns an error of
// exactly this text into its UNAUTHORIZED response, 401.
var ErrUnauthorized = errors.New("Unauthorized")

// Checker finds the limits of a call and takes from them in one step. It logs its errors.
type Checker interface {
	Check(ctx context.Context, call enforce.Call) (enforce.Result, error)
}

// Authorizer handles events. It is safe for concurrent use.
type Authorizer struct {
	checker    Checker
	identities *identity.Resolver
	answers    Answers
	log        *slog.Logger

	// Refused, unless nil, is called for every call without a good credential, and for
	// every call whose credential cannot be checked now. Set it before the first event.
	Refused func(ctx context.Context, r Refused)
}

// Refused is a call without a good credential. Its cause is Unavailable if the credential
// cannot be checked.
type Refused struct {
	Call    enforce.Call // without Subject if the credential could not be read
	Refusal policy.RefusedError
	ByError bool // whether the answer is an error
}

// New returns an Authorizer.
func New(checker Checker, identities *identity.Resolver, answers Answers, log *slog.Logger) *Authorizer {
	return &Authorizer{checker: checker, identities: identities, answers: answers, log: log}
}

// Invoke answers one event. It returns ErrUnauthorized for an event that it cannot read.
// REST and WebSocket APIs get ErrUnauthorized also for a bad credential: missing,
// malformed, unknown, revoked, expired, or used from an address that may not call.
//
// A REST API gets a deny only when the call has to wait: the caller is over a limit or
// banned, or the limits or the token issuer's keys cannot be read now. A call that costs
// more than its limit ever admits is denied too, and never passes. HTTP APIs turn a deny
// into 403 and an error into 500, so a bad credential is a deny there.
func (a *Authorizer) Invoke(ctx context.Context, raw []byte) (response []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			a.log.ErrorContext(ctx, "authorizer panicked", "panic", fmt.Sprintf("%T", r), "stack",
				string(debug.Stack()))
			response, err = nil, ErrUnauthorized
		}
	}()
	e, err := parseEvent(raw)
	if err != nil {
		a.log.WarnContext(ctx, "event refused", "bytes", len(raw), "cause", err)
		return nil, ErrUnauthorized
	}
	v, call, refusal := a.decide(ctx, e)
	if refusal != nil {
		byError := e.kind != http1 && e.kind != http2
		if a.Refused != nil {
			a.Refused(ctx, Refused{call, *refusal, byError})
		}
		if byError {
			return nil, ErrUnauthorized
		}
		v = unauthorized()
	}
	if response, err = json.Marshal(v.response(e, a.answers)); err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	return response, nil
}

var kinds = map[identity.Kind]policy.Kind{identity.Key: policy.APIKey, identity.JWT: policy.Token,
	identity.IP: policy.Address}

func callOf(caller identity.Identity, e event) enforce.Call {
	return enforce.Call{
		Kind: kinds[caller.Kind], Subject: caller.Subject, Secret: caller.Secret, Plan: caller.Plan,
		Scopes:  caller.Scopes,
		Address: caller.Addr, Network: caller.Address, Route: e.call, Resource: e.resource,
		Request: e.requestID,
	}
}

// decide returns the verdict on a call, or why its credential was refused.
func (a *Authorizer) decide(ctx context.Context, e event) (verdict, enforce.Call, *policy.RefusedError) {
	caller, err := a.identities.Identify(ctx, e.request())
	call := callOf(caller, e)
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		if a.Refused != nil {
			refusal := policy.RefusedError{Cause: cause.Unavailable, Reason: identity.Reason(err)}
			a.Refused(ctx, Refused{Call: call, Refusal: refusal})
		}
		return unavailable(), call, nil
	case errors.Is(err, identity.ErrMissing):
		return verdict{}, call, &policy.RefusedError{Cause: cause.Missing}
	case errors.Is(err, identity.ErrNoAddress):
		return verdict{}, call, &policy.RefusedError{Cause: cause.Address, Reason: identity.Reason(err)}
	case errors.Is(err, jwt.ErrExpired):
		return verdict{}, call, &policy.RefusedError{Cause: cause.Expired, Reason: identity.Reason(err)}
	case err != nil:
		return verdict{}, call, &policy.RefusedError{Cause: cause.Malformed, Reason: identity.Reason(err)}
	}
	v, refusal := a.check(ctx, call)
	if refusal != nil && refusal.Reason == enforce.NoPlan && caller.NoPlan != "" {
		why := *refusal
		why.Reason += ": " + caller.NoPlan
		refusal = &why
	}
	if v.verified {
		v.addClaims(caller.Claims)
	}
	return v, call, refusal
}

// check returns the verdict on a call of an identified caller.
func (a *Authorizer) check(ctx context.Context, call enforce.Call) (verdict, *policy.RefusedError) {
	result, err := a.checker.Check(ctx, call)
	if refusal, refused := errors.AsType[*policy.RefusedError](err); refused {
		return verdict{}, refusal
	}
	if err != nil {
		return unavailable(), nil //nolint:nilerr // the Checker logs it
	}
	return verdictOf(result), nil
}

// warmEvent has the fields that most events have.
const warmEvent = `{"type":"REQUEST","methodArn":"arn:aws:execute-api:us-east-1:123456789012:warm/up/GET/","headers":{"a":"b"},"path":"/",` +
	`"multiValueHeaders":{"a":["b"]},"requestContext":{"identity":{"sourceIp":"192.0.2.1"}}}`

// Warm encodes one answer, so that the JSON encoder knows the types before the first
// event. It may run in parallel with Invoke.
func (a *Authorizer) Warm() {
	e, err := parseEvent([]byte(warmEvent))
	if err == nil {
		_, _ = json.Marshal(unavailable().response(e, a.answers))
	}
}
