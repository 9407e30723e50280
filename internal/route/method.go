package route

import "strings"

const (
	anyMethod  = "ANY" // API Gateway's name for every method
	getMethod  = "GET"
	headMethod = "HEAD"
)

// OtherMethod stands in records for a method that callers can make up.
const OtherMethod = "other"

var namedMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "$connect"}

// NameMethod returns a method as records name it.
func NameMethod(method string) string {
	for _, name := range namedMethods {
		if strings.EqualFold(name, method) {
			return name
		}
	}
	return OtherMethod
}

// methodRank orders patterns by their method. A higher rank is more specific.
type methodRank uint8

const (
	everyMethod methodRank = iota // empty or *
	namedAny                      // ANY
	namedMethod                   // any method but HEAD
	namedHead                     // HEAD, before GET for a HEAD call
)

func rankMethod(method string) methodRank {
	switch {
	case matchesAny(method):
		return everyMethod
	case strings.EqualFold(method, anyMethod):
		return namedAny
	case strings.EqualFold(method, headMethod):
		return namedHead
	}
	return namedMethod
}

// matchesMethod reports whether calls with this method fall under the pattern.
func (p *compiled) matchesMethod(method string) bool {
	return p.method <= namedAny || strings.EqualFold(p.Method, method) || p.asGet(method)
}

// asGet reports whether a HEAD call falls under the pattern because the pattern is for
// GET.
func (p *compiled) asGet(method string) bool {
	return strings.EqualFold(p.Method, getMethod) && strings.EqualFold(method, headMethod)
}
