package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// quota is the smallest limit of the key.
type quota struct {
	requests int
	window   time.Duration
}

// defaultQuota is assumed until an answer names the key's limits.
var defaultQuota = quota{10, 10 * time.Second}

// Bounds of a key that verify can use: its calls fit in between, and a pause is short.
const (
	minRequests = 5
	maxRequests = 20
	maxWindow   = time.Minute
)

// reason returns why the key cannot be used up, or nothing.
func (q quota) reason() string {
	if q.requests < minRequests || q.requests > maxRequests || q.window > maxWindow {
		return fmt.Sprintf("the key's limit is %d per %s: use one of %d to %d calls in at most %s",
			q.requests, q.window, minRequests, maxRequests, maxWindow)
	}
	return ""
}

var policyItem = regexp.MustCompile(`;q=(\d{1,9});w=(\d{1,9})`)

// quotaOf returns the smallest limit of a RateLimit-Policy field.
func quotaOf(policy string) (quota, bool) {
	smallest, found := quota{}, false
	for _, item := range policyItem.FindAllStringSubmatch(policy, -1) {
		requests, _ := strconv.Atoi(item[1]) // digits
		seconds, _ := strconv.Atoi(item[2])
		if !found || requests < smallest.requests {
			smallest, found = quota{requests, time.Duration(seconds) * time.Second}, true
		}
	}
	return smallest, found
}

// makeRoom waits until n calls with the key are within its limit. It counts only verify's
// own calls.
func (s *session) makeRoom(ctx context.Context, n int) {
	if s.used+n > s.quota.requests {
		s.sleep(ctx, s.quota.window+time.Second)
		s.used = 0
	}
	s.used += n
}

// learn reads the key's limit and id from an allowed call.
func (s *session) learn(a answer) {
	authorizer := a.context()
	policy := a.header.Get("RateLimit-Policy")
	if policy == "" {
		policy = fmt.Sprint(authorizer["rateLimitPolicy"])
	}
	if q, found := quotaOf(policy); found {
		s.quota = q
	}
	if id, ok := authorizer["keyId"].(string); ok {
		s.keyID = id
	}
}
