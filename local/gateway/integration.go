package gateway

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// errMalformed means that an integration's answer does not have the form of proxy
// responses.
var errMalformed = errors.New("malformed proxy response")

// proxyResponse is the answer of a Lambda proxy integration.
type proxyResponse struct {
	StatusCode        any              `json:"statusCode"`
	Headers           map[string]any   `json:"headers"`
	MultiValueHeaders map[string][]any `json:"multiValueHeaders"`
	Cookies           []string         `json:"cookies"`
	Body              string           `json:"body"`
	IsBase64Encoded   bool             `json:"isBase64Encoded"`

	status int
	header http.Header
}

// parseProxyV1 parses an answer of format 1.0.
func parseProxyV1(answer []byte) (*proxyResponse, error) {
	out, err := parseProxy(answer)
	if err != nil {
		return nil, err
	}
	return out, out.mergeHeaders()
}

// parseProxyV2 parses an answer of format 2.0, where JSON without a status code is the
// body of a 200.
func parseProxyV2(answer []byte) (*proxyResponse, error) {
	if !hasStatusCode(answer) {
		return &proxyResponse{status: http.StatusOK, Body: string(answer),
			header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
	out, err := parseProxy(answer)
	if err != nil {
		return nil, err
	}
	out.MultiValueHeaders = nil // unknown in format 2.0
	if err := out.mergeHeaders(); err != nil {
		return nil, err
	}
	for _, cookie := range out.Cookies {
		if !validHeader("Set-Cookie", cookie) {
			return nil, fmt.Errorf("%w: bad cookie", errMalformed)
		}
		out.header.Add("Set-Cookie", cookie)
	}
	return out, nil
}

func hasStatusCode(answer []byte) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(answer, &fields) == nil && fields["statusCode"] != nil
}

func parseProxy(answer []byte) (*proxyResponse, error) {
	out := &proxyResponse{header: http.Header{}}
	if err := decode(answer, out); err != nil {
		return nil, fmt.Errorf("%w: not of the proxy form", errMalformed)
	}
	text, ok := scalarText(out.StatusCode)
	status, err := strconv.Atoi(text)
	if !ok || err != nil || status < 200 || status > 599 {
		return nil, fmt.Errorf("%w: status code %v", errMalformed, out.StatusCode)
	}
	out.status = status
	return out, nil
}

// mergeHeaders joins the two maps of headers. A name and value in both maps are sent
// once.
func (p *proxyResponse) mergeHeaders() error {
	for name, values := range p.MultiValueHeaders {
		for _, value := range values {
			if err := p.addHeader(name, value); err != nil {
				return err
			}
		}
	}
	for name, value := range p.Headers {
		if !slices.Contains(p.MultiValueHeaders[name], value) {
			if err := p.addHeader(name, value); err != nil {
				return err
			}
		}
	}
	dropHopByHop(p.header)
	return nil
}

func (p *proxyResponse) addHeader(name string, value any) error {
	text, ok := scalarText(value)
	if !ok || !validHeader(name, text) {
		return fmt.Errorf("%w: header %q", errMalformed, name)
	}
	p.header.Add(name, text)
	return nil
}

func (p *proxyResponse) decodedBody() ([]byte, error) {
	if !p.IsBase64Encoded {
		return []byte(p.Body), nil
	}
	body, err := base64.StdEncoding.DecodeString(p.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: body is not base64", errMalformed)
	}
	return body, nil
}

// remap renames the headers of an integration that a REST API does not pass on.
func remap(h http.Header) {
	for _, name := range []string{"Authorization", "Content-Length", "Content-Md5", "Date", "Host", "Server",
		"User-Agent", "Www-Authenticate"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h["X-Amzn-Remapped-"+name] = values
		}
	}
}

// Mapping changes the headers of an integration's response on an HTTP API. It maps
// overwrite:header.NAME to $context.X. An expression without a value changes nothing.
type Mapping map[string]string

// apply sets the headers from the context.
func (m Mapping) apply(h http.Header, context map[string]string) {
	for target, expression := range m {
		name := strings.TrimPrefix(target, overwriteHeader)
		value := context[strings.TrimPrefix(expression, contextVariable)]
		if value != "" && validHeader(name, value) {
			h.Set(name, value)
		}
	}
}
