package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// text returns the JSON string that a command printed.
func (e evidence) text() string {
	var text string
	if json.Unmarshal([]byte(e.output), &text) != nil {
		return strings.Join(strings.Fields(e.output), " ")
	}
	return text
}

// printed expects a word in a command's output.
func printed(pattern string) check {
	want := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(e evidence) outcome { return judged(want.MatchString(e.text()), e.text()) }
}

var sixtyFour = regexp.MustCompile(`^[0-9A-Za-z]{64}$`)

// pepper checks the pepper without showing it.
func pepper(e evidence) outcome {
	switch text := e.text(); {
	case sixtyFour.MatchString(text):
		return pass("64 letters and digits")
	case strings.Contains(text, "{{resolve"):
		return differ("an unresolved reference")
	default:
		return differ(fmt.Sprintf("%d characters of another form", len(text)))
	}
}

func encrypted(e evidence) outcome {
	var groups [][]*string
	if err := json.Unmarshal([]byte(e.output), &groups); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, group := range groups {
		if len(group) == 2 && group[0] != nil && group[1] == nil {
			return differ(*group[0] + " has no key")
		}
	}
	return judged(len(groups) > 0, fmt.Sprintf("%d groups", len(groups)))
}

var platformLine = regexp.MustCompile(`^(START|END|REPORT|INIT_START) |"type":\s*"platform\.`)

func ownLines(e evidence) outcome {
	var lines []string
	if err := json.Unmarshal([]byte(e.output), &lines); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, line := range lines {
		if found := platformLine.FindString(line); found != "" {
			return differ(found)
		}
	}
	return pass(fmt.Sprintf("none in %d lines", len(lines)))
}

func authorizers(e evidence) outcome {
	var list []struct {
		TTL    *int `json:"ttl"`
		Source any  `json:"source"`
	}
	if err := json.Unmarshal([]byte(e.output), &list); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, a := range list {
		if a.TTL == nil || *a.TTL != 0 {
			return differ("a TTL that is not 0")
		}
		if sources, isList := a.Source.([]any); a.Source != nil && a.Source != "" &&
			(!isList || len(sources) > 0) {
			return differ(fmt.Sprintf("identity source %v", a.Source))
		}
	}
	return judged(len(list) > 0, fmt.Sprintf("%d authorizers", len(list)))
}

func mapsHeaders(e evidence) outcome {
	var parameters map[string]string
	if err := json.Unmarshal([]byte(e.output), &parameters); err != nil {
		return differ("no parameters: " + err.Error())
	}
	for name, source := range map[string]string{
		"Retry-After": "retryAfter", "RateLimit": "rateLimit", "RateLimit-Policy": "rateLimitPolicy",
	} {
		if parameters["gatewayresponse.header."+name] != "context.authorizer."+source {
			return differ(name + " is " + fmt.Sprintf("%q", parameters["gatewayresponse.header."+name]))
		}
	}
	return pass("all three")
}

// stepOfRequest matches a line of an execution log.
var stepOfRequest = regexp.MustCompile(
	`(Starting authorizer|Verifying Usage Plan).* for request: ([0-9a-f-]+)`)

// planAfterAuthorizer compares the order of the two steps of each request in the log.
func planAfterAuthorizer(e evidence) outcome {
	var lines []string
	if err := json.Unmarshal([]byte(e.output), &lines); err != nil {
		return differ("not a list: " + err.Error())
	}
	steps := map[string][]string{}
	both := 0
	for _, line := range lines {
		found := stepOfRequest.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		steps[found[2]] = append(steps[found[2]], found[1])
	}
	for request, order := range steps {
		if len(order) < 2 {
			continue
		}
		both++
		if order[0] != "Starting authorizer" {
			return differ(strings.Join(order, ", then ") + ", for request " + request)
		}
	}
	if both == 0 {
		return skip("the execution log has no request with both steps yet")
	}
	return pass(fmt.Sprintf("in %d requests", both))
}

func cacheDimension(e evidence) outcome {
	var dimensions [][]string
	if err := json.Unmarshal([]byte(e.output), &dimensions); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, d := range dimensions {
		if len(d) == 2 && d[0] == "clusterId" {
			return pass(d[0] + " " + d[1])
		}
	}
	return differ(fmt.Sprintf("%v", dimensions))
}
