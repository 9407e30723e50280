package gateway

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tidegate/local/lambda"
)

// Errors of readRequest.
var (
	errHeadersTooLarge = errors.New("headers too large")
	errBodyTooLarge    = errors.New("body too large")
)

// request is a client's request as API Gateway forwards it.
type request struct {
	id        string
	now       time.Time
	method    string
	path      string // as sent, still percent-encoded (unconfirmed for rawPath of HTTP APIs)
	rawQuery  string
	query     url.Values
	header    http.Header // end-to-end headers, with Host and X-Forwarded-*
	protocol  string
	sourceIP  string // of the TCP peer, not of X-Forwarded-For
	userAgent string
	body      []byte
}

// readRequest reads a request. It returns errHeadersTooLarge if the header values and
// counted together exceed maxHeaders, and errBodyTooLarge if the body exceeds maxBody.
// counted is the length in bytes of the other parts that the header quota includes.
func readRequest(w http.ResponseWriter, r *http.Request, now time.Time, counted int) (*request, error) {
	req := &request{
		id:        lambda.NewRequestID(),
		now:       now,
		method:    r.Method,
		path:      cmp.Or(r.URL.EscapedPath(), "/"),
		rawQuery:  r.URL.RawQuery,
		query:     r.URL.Query(),
		protocol:  r.Proto,
		sourceIP:  peer(r.RemoteAddr),
		userAgent: r.UserAgent(),
	}
	if counted+headerSize(r) > maxHeaders {
		return req, errHeadersTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return req, errBodyTooLarge
	}
	req.body = body
	req.header = forwarded(r, req.sourceIP, len(body))
	return req, err
}

// lineSize returns the length of the request line. The quota of HTTP APIs includes it,
// that of REST APIs does not.
func lineSize(r *http.Request) int {
	return len(r.Method) + len(r.RequestURI) + len(r.Proto) + len("  ")
}

// headerSize returns the length of all header values. The quotas do not count names.
func headerSize(r *http.Request) int {
	size := len(r.Host)
	for _, values := range r.Header {
		for _, value := range values {
			size += len(value)
		}
	}
	return size
}

func forwarded(r *http.Request, sourceIP string, length int) http.Header {
	h := r.Header.Clone()
	dropHopByHop(h)
	h.Set("Host", r.Host)
	h.Set("X-Forwarded-For", strings.Join(append(r.Header.Values("X-Forwarded-For"), sourceIP), ", "))
	proto := "http"
	if r.TLS != nil {
		proto = "https"
	}
	h.Set("X-Forwarded-Proto", proto)
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		h.Set("X-Forwarded-Port", port)
	}
	if r.ContentLength < 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	return h
}

func peer(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host, _, _ = strings.Cut(host, "%") // an IPv6 zone has a meaning only on this machine
	return host
}

// encodedBody returns the body for events.
func (r *request) encodedBody(binary bool) (body any, isBase64 bool) {
	switch {
	case len(r.body) == 0:
		return nil, false
	case binary:
		return base64.StdEncoding.EncodeToString(r.body), true
	default:
		return strings.ToValidUTF8(string(r.body), string(utf8.RuneError)), false
	}
}

// lastValues flattens headers and query strings as REST events do: the last value of
// each.
func lastValues(values map[string][]string) map[string]string {
	flat := make(map[string]string, len(values))
	for name, all := range values {
		flat[name] = all[len(all)-1]
	}
	return flat
}

// joinedValues flattens headers and query strings as HTTP API events do: all values,
// joined by commas.
func joinedValues(values map[string][]string) map[string]string {
	flat := make(map[string]string, len(values))
	for name, all := range values {
		flat[name] = strings.Join(all, ",")
	}
	return flat
}

// lowerHeaders returns the headers field of format 2.0. Cookies have a separate field.
func (r *request) lowerHeaders() map[string]string {
	lower := map[string]string{}
	for name, value := range joinedValues(r.header) {
		if name != "Cookie" {
			lower[strings.ToLower(name)] = value
		}
	}
	return lower
}

// cookies lists every cookie of every Cookie header as name=value.
func (r *request) cookies() []string {
	var all []string
	for _, line := range r.header.Values("Cookie") {
		for cookie := range strings.SplitSeq(line, ";") {
			if cookie = strings.TrimSpace(cookie); cookie != "" {
				all = append(all, cookie)
			}
		}
	}
	return all
}

// authorizerEventV1 returns the fields of a REQUEST authorizer's event in format 1.0 that
// both kinds of API share.
func (r *request) authorizerEventV1(api, stage string) map[string]any {
	return map[string]any{
		"type":                            "REQUEST",
		"methodArn":                       r.arn(api, stage),
		"path":                            r.path,
		"httpMethod":                      r.method,
		"headers":                         lastValues(r.header),
		"multiValueHeaders":               r.header,
		"queryStringParameters":           lastValues(r.query),
		"multiValueQueryStringParameters": r.query,
		"stageVariables":                  map[string]string{},
	}
}

// requestContextV1 returns the fields of requestContext in format 1.0 that both kinds of
// API share.
func (r *request) requestContextV1(api, stage string) map[string]any {
	return map[string]any{
		"accountId":         account,
		"apiId":             api,
		"domainName":        domain(api),
		"domainPrefix":      api,
		"extendedRequestId": r.id,
		"httpMethod":        r.method,
		"protocol":          r.protocol,
		"requestId":         r.id,
		"requestTime":       r.now.Format(timeLayout),
		"requestTimeEpoch":  r.now.UnixMilli(),
		"stage":             stage,
	}
}

// context returns the $context variables that both kinds of API share.
func (r *request) context(api, stage string) map[string]string {
	variables := map[string]string{
		"identity.sourceIp":  r.sourceIP,
		"identity.userAgent": r.userAgent,
	}
	for name, value := range r.requestContextV1(api, stage) {
		variables[name] = fmt.Sprint(value)
	}
	return variables
}

func domain(api string) string { return api + ".execute-api." + region + ".amazonaws.com" }

// arn returns the ARN of the called method or route.
func (r *request) arn(api, stage string) string {
	return fmt.Sprintf("arn:aws:execute-api:%s:%s:%s/%s/%s/%s", region, account, api, stage, r.method,
		strings.TrimPrefix(r.path, "/"))
}
