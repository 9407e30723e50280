package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A HEAD call falls under the rule for GET unless a rule as specific in API and path
// names HEAD.
func TestHeadFollowsGet(t *testing.T) {
	for _, c := range []struct {
		rules []string
		call  Call
		want  string
	}{
		{[]string{"GET /report"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"get /report"}, Call{Method: "head", Path: "/REPORT/"}, "get /report"},
		{[]string{"GET /report", "*"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "/report"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "ANY /report"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "ANY /{proxy+}"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "HEAD /report"}, Call{Method: "HEAD", Path: "/report"}, "HEAD /report"},
		{[]string{"GET /report", "HEAD /report"}, Call{Method: "GET", Path: "/report"}, "GET /report"},
		{[]string{"*/prod GET /report", "HEAD /report"}, Call{Stage: "prod", Method: "HEAD", Path: "/report"},
			"HEAD /report"},
		{[]string{"GET /report", "HEAD *"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /report", "HEAD /{proxy+}"}, Call{Method: "HEAD", Path: "/report"}, "GET /report"},
		{[]string{"GET /{name}", "HEAD /report"}, Call{Method: "HEAD", Path: "/report"}, "HEAD /report"},
		{[]string{"a1/* GET /report", "HEAD /report"}, Call{API: "a1", Method: "HEAD", Path: "/report"},
			"a1/* GET /report"},
		{[]string{"GET /{name}", "/report"}, Call{Method: "HEAD", Path: "/report"}, "* /report"},
		{[]string{"POST /report"}, Call{Method: "HEAD", Path: "/report"}, "none"},
		{[]string{"HEAD /report"}, Call{Method: "GET", Path: "/report"}, "none"},
		{[]string{"GET /report"}, Call{Method: "OPTIONS", Path: "/report"}, "none"},
		{[]string{"GET /report"}, Call{Path: "/report"}, "none"},
	} {
		for _, order := range [][]string{c.rules, reversed(c.rules)} {
			if got := found(t, table(t, order...), c.call); got != c.want {
				t.Errorf("%v, %s %s: got %q, want %q", order, c.call.Method, c.call.Path, got, c.want)
			}
		}
	}
}

// ANY stands for every method, as in API Gateway, and gives way to a rule that names one.
func TestAnyMethod(t *testing.T) {
	for _, c := range []struct {
		rules        []string
		method, want string
	}{
		{[]string{"ANY /{proxy+}"}, "PATCH", "ANY /{proxy+}"},
		{[]string{"any /{proxy+}"}, "head", "any /{proxy+}"},
		{[]string{"ANY /{proxy+}"}, "", "ANY /{proxy+}"},
		{[]string{"ANY /{proxy+}", "/{proxy+}"}, "PUT", "ANY /{proxy+}"},
		{[]string{"ANY /{proxy+}", "PUT /{proxy+}"}, "PUT", "PUT /{proxy+}"},
	} {
		for _, order := range [][]string{c.rules, reversed(c.rules)} {
			if got := found(t, table(t, order...), Call{Method: c.method, Path: "/a/b"}); got != c.want {
				t.Errorf("%v, %s: got %q, want %q", order, c.method, got, c.want)
			}
		}
	}
}

func TestExplainHead(t *testing.T) {
	rules := table(t, "GET /report", "HEAD /status", "GET /status", "/report", "HEAD *")
	for _, c := range []struct {
		call Call
		want []Match
	}{
		{Call{Method: "GET", Path: "/report"}, []Match{
			{0, true, "won: it names the method GET, unlike * /report"},
			{3, false, "lost to GET /report, which names the method GET"},
		}},
		{Call{Method: "HEAD", Path: "/report"}, []Match{
			{0, true, "won: it names the method GET, unlike * /report; HEAD follows the rule for GET"},
			{3, false, "lost to GET /report, which names the method GET"},
			{4, false, `lost to GET /report, which has the literal "report" as segment 1`},
		}},
		{Call{Method: "HEAD", Path: "/status"}, []Match{
			{1, true, "won: it names the method HEAD, unlike GET /status"},
			{2, false, "lost to HEAD /status, which names the method HEAD"},
			{4, false, `lost to HEAD /status, which has the literal "status" as segment 1`},
		}},
	} {
		if diff := cmp.Diff(c.want, rules.Explain(c.call)); diff != "" {
			t.Errorf("%+v: %s", c.call, diff)
		}
	}
}
