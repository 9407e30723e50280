package gateway

import (
	"cmp"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// dropHopByHop removes the headers of a single connection (RFC 9110, section 7.6.1).
func dropHopByHop(h http.Header) {
	for _, field := range h.Values("Connection") {
		for name := range strings.SplitSeq(field, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// validHeader reports whether a field can be sent: the name is a token and the value has
// no control characters (RFC 9110, section 5).
func validHeader(name, value string) bool {
	return name != "" && strings.IndexFunc(name, notToken) < 0 && strings.IndexFunc(value, isControl) < 0
}

func notToken(r rune) bool {
	letterOrDigit := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// reservedHeader reports whether a mapping may not touch a header.
func reservedHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "access-control-") || strings.HasPrefix(name, "apigw-") ||
		strings.HasPrefix(name, "x-amz") ||
		slices.Contains([]string{"authorization", "connection", "content-encoding", "content-length",
			"content-location", "forwarded", "keep-alive",
			"origin", "proxy-authenticate", "proxy-authorization", "te", "trailers", "transfer-encoding",
			"upgrade", "x-forwarded-for",
			"x-forwarded-host", "x-forwarded-proto", "via"}, name)
}

// spelling has header names whose usual form is not the canonical one of net/http.
var spelling = map[string]string{
	"Apigw-Requestid":  "apigw-requestid",
	"Ratelimit":        "RateLimit",
	"Ratelimit-Policy": "RateLimit-Policy",
	"Www-Authenticate": "WWW-Authenticate",
	"X-Amz-Apigw-Id":   "x-amz-apigw-id",
	"X-Amzn-Errortype": "x-amzn-ErrorType",
	"X-Amzn-Requestid": "x-amzn-RequestId",
}

func write(w http.ResponseWriter, status int, header http.Header, body []byte) {
	h := w.Header()
	h["Content-Type"] = nil // else net/http guesses one when there is none
	for name, values := range header {
		h[cmp.Or(spelling[name], name)] = values
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only after the client disconnected
}
