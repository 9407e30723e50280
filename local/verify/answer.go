package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// answer is the result of one call. err is set if there was none.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error
}

// echoed is the answer of the example APIs' backend.
type echoed struct {
	Path       string         `json:"path"`
	Authorizer map[string]any `json:"authorizer"`
}

func (a answer) echo() (echoed, bool) {
	var e echoed
	err := json.Unmarshal([]byte(a.body), &e)
	return e, err == nil && e.Authorizer != nil
}

// context returns the authorizer context that the backend got; nil if the answer does not
// show it.
func (a answer) context() map[string]any {
	e, _ := a.echo()
	return e.Authorizer
}

var remainingItem = regexp.MustCompile(`;r=(\d{1,18})`)

// remaining returns what remains of the binding limit, from the context or else the
// header.
func (a answer) remaining() (int64, bool) {
	text := fmt.Sprint(a.context()["remaining"])
	if item := remainingItem.FindStringSubmatch(a.header.Get("RateLimit")); item != nil &&
		a.context() == nil {
		text = item[1]
	}
	n, err := strconv.ParseFloat(text, 64) // a number of JSON, or digits
	return int64(n), err == nil
}

// falls reports whether remaining decreases from one answer to a later one. seen
// describes both.
func falls(answers []answer) (fell, known bool, seen string) {
	last := int64(-1)
	for _, a := range answers {
		n, found := a.remaining()
		if !found {
			continue
		}
		if seen != "" {
			seen += ", "
		}
		seen += strconv.FormatInt(n, 10)
		fell = fell || known && n < last
		known, last = true, n
	}
	return fell, known, "remaining " + seen
}

// policy returns the RateLimit-Policy of an answer.
func (a answer) policy() string {
	if text, found := a.context()["rateLimitPolicy"].(string); found {
		return text
	}
	return strings.Join(a.header.Values("RateLimit-Policy"), ", ")
}
