package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// checkQuery refuses a query that huma would read only in part: one that is not encoded, a
// parameter that is sent twice, and a parameter other than text without a value. It also
// refuses a blank Idempotency-Key, with which each repeat would make another secret.
func (a *API) checkQuery(ctx huma.Context, next func(huma.Context)) {
	u := ctx.URL()
	values, err := url.ParseQuery(u.RawQuery)
	var errs []error
	refuse := func(location, message string) {
		errs = append(errs, &huma.ErrorDetail{Location: location, Message: message})
	}
	if err != nil {
		refuse("query", "is not encoded: send % as %25 and ; as %3B")
	}
	ctx.EachHeader(func(name, value string) {
		if strings.EqualFold(name, "Idempotency-Key") && value == "" {
			refuse("header.Idempotency-Key", "has no value: send a random text, such as a UUID")
		}
	})
	for _, p := range ctx.Operation().Parameters {
		given := values[p.Name]
		switch {
		case p.In != "query":
		case len(given) > 1:
			refuse("query."+p.Name, fmt.Sprintf("is given %d times: send it once", len(given)))
		case len(given) == 1 && given[0] == "" && p.Schema.Type != huma.TypeString:
			refuse("query."+p.Name, "has no value: send one, such as "+exampleOf(p.Schema.Type))
		}
	}
	if len(errs) == 0 {
		next(ctx)
		return
	}
	_ = huma.WriteErr(a.huma, ctx, http.StatusUnprocessableEntity, "", errs...)
}

func exampleOf(kind string) string {
	if kind == huma.TypeBoolean {
		return "true"
	}
	return "1"
}
