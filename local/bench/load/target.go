//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"tidegate/internal/limits"
	"tidegate/internal/testing/rolling"
)

// caller makes calls with one credential.
type caller struct {
	name         string // for reports, never the credential
	credential   string
	plan         string         // callers of one plan share rows of the result
	limits       []limits.Limit // nil if unknown
	unregistered bool           // the key does not exist
}

// kind is the meaning of an answer.
type kind uint8

const (
	admitted     kind = iota // allowed by the limiter
	denied                   // over a limit
	unauthorized             // unknown credential
	undecided                // allowed or denied without Valkey
	failed                   // any other status, or no answer: it is unknown whether the call counted
)

// expects reports whether the kind is possible for the caller.
func (c caller) expects(k kind) bool {
	if c.unregistered {
		return k == unauthorized
	}
	return k == admitted || k == denied
}

// call is one call as the client saw it. The limiter decided within the span.
type call struct {
	caller int
	kind   kind
	span   rolling.Span
}

// add adds the result of a call.
func (l *load) add(r *vegeta.Result) {
	u, _ := url.Parse(r.URL) // targetOf made it
	i, _ := strconv.Atoi(u.Fragment)
	l.codes[r.Code]++
	l.made = append(l.made, call{i, kindOf(r.Code, r.Body),
		rolling.Span{First: r.Timestamp.Sub(l.began), Last: r.End().Sub(l.began)}})
}

const maxBody = 64 << 10

// kindOf returns the kind of an answer. A 429 without the problem type of a limit means
// that the caller could not be checked. An HTTP API answers every denial with 403.
func kindOf(status uint16, body []byte) kind {
	switch {
	case status >= 200 && status < 300 && bytes.Contains(body, []byte(`"degraded"`)): // of the local backend
		return undecided
	case status >= 200 && status < 300:
		return admitted
	case status == http.StatusTooManyRequests && !bytes.Contains(body, []byte("quota-exceeded")):
		return undecided
	case status == http.StatusTooManyRequests, status == http.StatusForbidden:
		return denied
	case status == http.StatusUnauthorized:
		return unauthorized
	}
	return failed
}

// probe makes one call to the target with each key, and reads the limits from the answers.
func (l *load) probe(ctx context.Context) error {
	client := &http.Client{Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for i, key := range l.keys {
		l.callers = append(l.callers, caller{name: fmt.Sprintf("key %d", i+1), credential: key, plan: "-key"})
		target := l.targetOf(i)
		request, err := target.Request()
		if err != nil {
			return errors.New("-target: not a URL") // which may have a password
		}
		r := &vegeta.Result{Timestamp: time.Now(), URL: target.URL}
		response, err := client.Do(request.WithContext(ctx))
		if err != nil {
			return fmt.Errorf("call the target: %w", errors.Unwrap(err)) // without the URL
		}
		r.Body, err = io.ReadAll(io.LimitReader(response.Body, maxBody))
		_ = response.Body.Close()
		if err != nil {
			return fmt.Errorf("call the target: %w", err)
		}
		r.Latency, r.Code = time.Since(r.Timestamp), uint16(response.StatusCode)
		if k := kindOf(r.Code, r.Body); !l.callers[i].expects(k) {
			return fmt.Errorf("the target answers %d to key %d, which must be allowed or over a limit",
				r.Code, i+1)
		}
		l.callers[i].limits = policiesIn(response.Header)
		l.add(r)
	}
	return nil
}

var policyItem = regexp.MustCompile(`;q=(\d+);w=(\d+)`)

// policiesIn returns the valid limits in a RateLimit-Policy field.
func policiesIn(h http.Header) []limits.Limit {
	var list []limits.Limit
	for _, item := range policyItem.FindAllStringSubmatch(h.Get("RateLimit-Policy"), -1) {
		requests, _ := strconv.ParseInt(item[1], 10, 64) // digits; Errors refuses a value out of range
		seconds, _ := strconv.ParseInt(item[2], 10, 64)
		l := per(requests, time.Duration(seconds)*time.Second)
		if len(l.Errors()) == 0 {
			list = append(list, l)
		}
	}
	return list
}
