package route

import "testing"

// A list matches a call if in each reading of the path one of its patterns matches.
func TestList(t *testing.T) {
	list, err := NewList([]Pattern{
		{API: "orders1", Stage: "prod", Method: "GET", Path: "/orders/*"}, {API: "orders1", Path: "/health"},
		{API: "any", Stage: "*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[Call]bool{
		{"orders1", "prod", "GET", "/orders/7"}:              true,
		{"orders1", "prod", "HEAD", "/orders/7"}:             true,
		{"orders1", "prod", "get", "//ORDERS//7/"}:           true,
		{"orders1", "prod", "GET", "/orders/7%2f8"}:          true,
		{"orders1", "dev", "POST", "/health/"}:               true,
		{"any", "x", "DELETE", "/what/../ever"}:              true,
		{"orders1", "prod", "GET", "/orders"}:                false,
		{"orders1", "prod", "POST", "/orders/7"}:             false,
		{"orders1", "dev", "GET", "/orders/7"}:               false,
		{"orders2", "prod", "GET", "/orders/7"}:              false,
		{"ORDERS1", "prod", "GET", "/orders/7"}:              false,
		{"orders1", "prod", "GET", "/admin"}:                 false,
		{"orders1", "prod", "GET", "/orders/../admin"}:       false,
		{"orders1", "prod", "GET", "/orders/..%2fadmin"}:     false,
		{"orders1", "prod", "GET", "/orders/%2e%2e/admin"}:   false,
		{"orders1", "prod", "GET", "/orders/..%252fadmin"}:   false,
		{"orders1", "prod", "GET", `/orders/..\admin`}:       false,
		{"orders1", "prod", "GET", "/orders/..;x/admin"}:     false,
		{"orders1", "prod", "GET", "/admin/..%2forders/7"}:   false,
		{"orders1", "prod", "GET", "/admin%2f..%2forders/7"}: false,
		{"orders1", "prod", "GET", "/orders%2f7"}:            false,
		{"orders1", "prod", "GET", "/prod/orders/7"}:         false,
		{"orders1", "prod", "GET", "/health;/../admin"}:      false,
		{"orders1", "prod", "GET", ""}:                       false,
	} {
		if got := list.Matches(call); got != want {
			t.Errorf("%v: got %t, want %t", call, got, want)
		}
	}
	if none, err := NewList(nil); err != nil || none.Matches(Call{Path: "/"}) {
		t.Errorf("empty list: got %v, or a match, want none", err)
	}
	if _, err := NewList([]Pattern{{Path: "orders"}}); err == nil {
		t.Error("invalid pattern: got no error")
	}
}

// A path with control characters or overlong UTF-8 matches no list, wherever they stand.
func TestListRefusesMisleadingPaths(t *testing.T) {
	l, err := NewList([]Pattern{{Path: "/orders/*"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"7%00", "7%00.png", "a%0ab", "a%0d%0ab", "%09", "7%7f", "7%1f", "%2500",
		"7\x00", "%c0%80", "%c1%81", "%e0%80%80", "%e0%9f%bf", "%f0%80%80%80", "%f0%8f%bf%bf", "a\xc1\x81"} {
		if l.Matches(Call{Method: "GET", Path: "/orders/" + end}) {
			t.Errorf("%q matches", end)
		}
	}
	for _, end := range []string{"7", "%20", "a%20b", "M%C3%BCnchen", "%e0%a0%80", "%f0%90%80%80", "%fc",
		"%F0%9F%98%80"} {
		if !l.Matches(Call{Method: "GET", Path: "/orders/" + end}) {
			t.Errorf("%q does not match", end)
		}
	}
}
