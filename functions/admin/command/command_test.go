package command_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// object is a body of the API; form is what a browser sends.
type (
	object map[string]any
	form   map[string]string
)

// wrongField is a value that a command refuses, in both encodings.
type wrongField struct {
	form form
	json object
	at   string // the field on a page
	in   string // the location in the API; empty if it is body. with the field
}

// doors is a command with the page and the operation by which it is given.
type doors struct {
	page      string
	method    string
	operation string
	form      form   // valid
	json      object // the same
	wrong     map[string]wrongField
	// versioned commands need If-Match; others obey it. unversioned ones have no version.
	versioned, unversioned bool
	// before prepares the site; nil for nothing.
	before func(*sitetest.Site)
	// touch changes what the command changes, as somebody else does.
	touch func(*sitetest.Site)
	// warned is a form and a body with a warning; nil for a command without any.
	warned *wrongField
	// result is what the command leaves, for a comparison of both encodings.
	result func(*sitetest.Site) any
}

const (
	far  = "2099-05-01T12:30:00Z"
	past = "2001-05-01T12:30:00Z"
)

var tooLong = strings.Repeat("x", 201)

func withReason(wrong map[string]wrongField) map[string]wrongField {
	wrong["long reason"] = wrongField{form: form{"reason": tooLong}, json: object{"reason": tooLong},
		at: "reason"}
	return wrong
}

func touchKey(s *sitetest.Site) {
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Tags = append(k.Tags, "later") })
}

func key(s *sitetest.Site) any {
	k := s.Keys.Key("acme")
	k.ID, k.Version, k.Created, k.Updated, k.Reset = "", 0, time.Time{}, time.Time{}, time.Time{}
	return k
}

func set(s *sitetest.Site) any {
	now := *s.Set()
	now.Version = 0
	return now
}

// redundant is an override with a limit that never decides.
var redundant = &wrongField{
	form: form{"limits": "5 per minute\n500 per minute", "reason": "x", "lasts": "never"},
	json: object{"limits": []string{"5 per minute", "500 per minute"}, "reason": "x"},
}

var badLimits = map[string]wrongField{
	"limit": {form: form{"limits": "7 per hour\n0 per hour"},
		json: object{
			"limits": []string{"7 per hour", "0 per hour"},
		}, at: "limits", in: "body.limits[1].requests"},
	"past end": {form: form{"lasts": "at", "until": "2001-05-01T12:30"}, json: object{"until": past},
		at: "until"},
	"no reason":   {form: form{"reason": " "}, json: object{"reason": ""}, at: "reason"},
	"long reason": {form: form{"reason": tooLong}, json: object{"reason": tooLong}, at: "reason"},
}

// inShadow gives the first plan a limit in shadow.
func inShadow(s *sitetest.Site) {
	s.Keys.Save(func(set *policy.Set) {
		set.Plans[0].Limits = append(set.Plans[0].Limits, sitetest.Limit("40 per minute, shadow"))
	})
}

func commands() map[string]doors {
	ofKey := func(d doors) doors {
		d.touch, d.result = touchKey, key
		return d
	}
	return map[string]doors{
		"revoke": ofKey(doors{page: "/keys/{acme}/revoke", method: "POST", operation: "/keys/{acme}/revoke",
			form: form{
				"reason": "leak",
			}, json: object{"reason": "leak"}, wrong: withReason(map[string]wrongField{})}),
		"unrevoke": ofKey(
			doors{page: "/keys/{acme}/unrevoke", method: "POST", operation: "/keys/{acme}/unrevoke",
				wrong: withReason(map[string]wrongField{}), before: func(s *sitetest.Site) {
					s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Status = policy.Revoked })
				}},
		),
		"ban": ofKey(doors{page: "/keys/{acme}/ban", method: "POST", operation: "/keys/{acme}/ban",
			form: form{"lasts": "at", "until": "2099-05-01T12:30", "reason": "flood"},
			json: object{"until": far, "reason": "flood"},
			wrong: withReason(map[string]wrongField{
				"no reason": {form: form{"reason": ""}, json: object{"reason": ""}, at: "reason"},
				"past": {
					form: form{"until": "2001-05-01T12:30"},
					json: object{"until": past},
					at:   "until",
				},
				"late": {
					form: form{"until": "9999-05-01T12:30"},
					json: object{"until": "9999-01-01T00:00:00Z"},
					at:   "until",
				},
				"no end": {
					form: form{"lasts": "never", "until": ""},
					json: object{"until": nil},
					at:   "until",
				},
			})}),
		"unban": ofKey(doors{page: "/keys/{acme}/unban", method: "POST", operation: "/keys/{acme}/unban",
			wrong: withReason(map[string]wrongField{}), before: func(s *sitetest.Site) {
				s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) })
			}}),
		"reset": ofKey(doors{page: "/keys/{acme}/reset", method: "POST", operation: "/keys/{acme}/reset",
			wrong: withReason(map[string]wrongField{})}),
		"delete": {page: "/keys/{acme}/delete", method: "DELETE", operation: "/keys/{acme}", touch: touchKey,
			result: func(s *sitetest.Site) any {
				return s.Do(http.MethodGet, "/keys/{acme}", nil, nil).StatusCode
			},
			wrong: map[string]wrongField{"long reason": {form: form{"reason": tooLong},
				json: object{"?": "reason=" + tooLong}, at: "reason", in: "query.reason"}}},
		"override": ofKey(
			doors{page: "/keys/{acme}/limits", method: "PUT", operation: "/keys/{acme}/override",
				versioned: true, wrong: badLimits, warned: redundant,
				form: form{
					"limits": "7 per hour",
					"lasts":  "at",
					"until":  "2099-05-01T12:30",
					"reason": "launch",
				},
				json: object{"limits": []string{"7 per hour"}, "until": far, "reason": "launch"}},
		),
		"end": ofKey(doors{page: "/keys/{acme}/end", method: "DELETE", operation: "/keys/{acme}/override",
			before: func(s *sitetest.Site) { s.Keys.OverrideKey("acme", sitetest.Per(3, time.Hour)) }}),
		"edit": ofKey(
			doors{page: "/keys/{acme}/edit", method: "PATCH", operation: "/keys/{acme}", versioned: true,
				form: form{
					"name":    "a",
					"plan":    "free",
					"tags":    "x, y",
					"group":   "g",
					"billing": "15 (Europe/Berlin)",
					"lasts":   "at",
					"until":   "2099-05-01T12:30",
					"opens":   "GET /a\n/b",
				},
				json: object{"name": "a", "plan": "free", "tags": []string{"x", "y"}, "group": "g",
					"billing": object{"day": 15, "zone": "Europe/Berlin"}, "expires": far,
					"opens": []object{{"method": "GET", "path": "/a"}, {"path": "/b"}}},
				wrong: withReason(map[string]wrongField{
					"name": {form: form{"name": " "}, json: object{"name": " "}, at: "name"},
					"plan": {form: form{"plan": "none"}, json: object{"plan": "none"}, at: "plan"},
					"tag": {form: form{"tags": strings.Repeat("x", 51)},
						json: object{
							"tags": []string{strings.Repeat("x", 51)},
						}, at: "tags", in: "body.tags[0]"},
					"group": {
						form: form{"group": "two words"},
						json: object{"group": "two words"},
						at:   "group",
					},
					"expiry": {
						form: form{"until": "2001-05-01T12:30"},
						json: object{"expires": past},
						at:   "until",
						in:   "body.expires",
					},
					"billing": {
						form: form{"billing": "32"},
						json: object{"billing": object{"day": 32}},
						at:   "billing",
						in:   "body.billing.day",
					},
					"opens": {
						form: form{"opens": "GET orders"},
						json: object{"opens": []object{{"path": "orders"}}},
						at:   "opens",
						in:   "body.opens[0].path",
					},
				})},
		),
		"rotate": ofKey(doors{page: "/keys/{acme}/rotate", method: "POST", operation: "/keys/{acme}/rotate",
			versioned: true,
			form:      form{"grace": "0s"}, json: object{"grace": "0s"},
			wrong: withReason(map[string]wrongField{
				"grace": {form: form{"grace": "91d"}, json: object{"grace": "91d"}, at: "grace"}})}),
		"create": {page: "/keys/new", method: "POST", operation: "/keys", unversioned: true,
			form: form{
				"name": "new",
				"plan": "free",
				"env":  "live",
			}, json: object{"name": "new", "plan": "free"},
			result: func(s *sitetest.Site) any {
				return strings.Count(s.Get("/keys?q=new").Body, "<bdi>new</bdi>")
			},
			wrong: withReason(map[string]wrongField{
				"name": {form: form{"name": ""}, json: object{"name": ""}, at: "name"},
				"plan": {form: form{"plan": "none"}, json: object{"plan": "none"}, at: "plan"},
				"env":  {form: form{"env": "Not Good"}, json: object{"env": "Not Good"}, at: "env"},
				"expiry": {
					form: form{"lasts": "at", "until": "2001-05-01T12:30"},
					json: object{"expires": past},
					at:   "until",
					in:   "body.expires",
				},
				"value": {
					form: form{"value": strings.Repeat("v", 30)},
					json: object{"value": strings.Repeat("v", 30)},
					at:   "value",
				},
			})},
		"group override": {page: "/groups/big/limits", method: "PUT", operation: "/groups/big/override",
			versioned: true,
			before:    inGroup, result: set, wrong: badLimits, warned: redundant,
			form: form{"limits": "7 per hour", "lasts": "never", "reason": "launch"},
			json: object{"limits": []string{"7 per hour"}, "reason": "launch"},
			touch: func(s *sitetest.Site) {
				overrideBig(s, "theirs")
			}},
		"end group override": {page: "/groups/big/end", method: "DELETE", operation: "/groups/big/override",
			before: func(s *sitetest.Site) {
				inGroup(s)
				overrideBig(s, "ours")
			}, result: set, form: form{"reason": "over"}, json: object{"?": "reason=over"},
			touch: func(s *sitetest.Site) { overrideBig(s, "theirs") }},
		"expire secret": ofKey(doors{page: "/keys/{acme}/expire-secret", method: "POST",
			operation: "/keys/{acme}/expire-secret", wrong: withReason(map[string]wrongField{})}),
		"delete plan": {page: "/policies/plans/2/delete", method: "DELETE", operation: "/plans/2",
			before: func(s *sitetest.Site) {
				s.Keys.Save(func(set *policy.Set) {
					set.Plans = append(set.Plans, policy.Plan{Name: "spare", Degraded: policy.Closed,
						Limits: []limits.Limit{sitetest.Limit("9 per hour")}})
				})
			}, result: set, form: form{"reason": "over"}, json: object{"?": "reason=over"},
			touch: func(s *sitetest.Site) {
				s.Keys.Save(func(set *policy.Set) {
					set.Plans[1].Limits = []limits.Limit{sitetest.Limit("8 per hour")}
				})
			}},
		"billing": {
			page:      "/groups/big/billing",
			method:    "PUT",
			operation: "/groups/big/billing",
			versioned: true,
			before:    inGroup,
			result:    set,
			form:      form{"billing": "15"},
			json:      object{"day": 15},
			wrong: withReason(map[string]wrongField{
				"day": {form: form{"billing": "0"}, json: object{"day": 0}, at: "billing", in: "body.day"}}),
			touch: func(s *sitetest.Site) {
				s.Keys.Save(func(set *policy.Set) {
					set.GroupBilling = map[string]limits.Billing{"big": {Day: 3}}
				})
			},
		},
		"edit plan": {page: "/policies/plans/1/edit", method: "PUT", operation: "/plans/1", versioned: true,
			result: set,
			form: form{"name": "basic", "degraded": "local", "share": "20", "limits": "20 per minute",
				"opens": "GET /a", "reason": "x"},
			json: object{
				"name":     "basic",
				"degraded": "local",
				"share":    20,
				"limits":   []string{"20 per minute"},
				"opens":    []object{{"method": "GET", "path": "/a"}},
				"reason":   "x",
			},
			wrong: withReason(map[string]wrongField{
				"name": {form: form{"name": ""}, json: object{"name": ""}, at: "name"},
				"limit": {form: form{"limits": "0 per hour"}, json: object{"limits": []string{"0 per hour"}},
					at: "limits", in: "body.limits[0].requests"},
				"degraded": {
					form: form{"degraded": "half"},
					json: object{"degraded": "half"},
					at:   "degraded",
				},
				"share":    {form: form{"share": "101"}, json: object{"share": 101}, at: "share"},
				"no share": {form: form{"share": ""}, json: object{"share": 0}, at: "share"},
				"opens": {
					form: form{"opens": "GET orders"},
					json: object{"opens": []object{{"path": "orders"}}},
					at:   "opens",
					in:   "body.opens[0].path",
				},
				"reason": {form: form{"reason": ""}, json: object{"reason": ""}, at: "reason"},
			}),
			touch: func(s *sitetest.Site) {
				s.Keys.Save(func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 77 })
			}},
		"create route": {
			page:        "/policies/routes/new",
			method:      "POST",
			operation:   "/routes",
			unversioned: true,
			result:      set,
			form: form{"name": "chat", "match": "POST /chat", "cost": "2, 5 input", "settle": "yes",
				"scopes": "a\nb", "reason": "x"},
			json: object{"name": "chat", "match": []object{{"method": "POST", "path": "/chat"}},
				"cost": object{
					"cost":  2,
					"input": 5,
				}, "settle": true, "scopes": []string{"a", "b"}, "reason": "x"},
			wrong: withReason(map[string]wrongField{
				"name":  {form: form{"name": ""}, json: object{"name": ""}, at: "name"},
				"match": {form: form{"match": ""}, json: object{"match": []object{}}, at: "match"},
				"cost":  {form: form{"cost": "much"}, json: object{"cost": "much"}, at: "cost"},
				"scope": {form: form{"scopes": `a"b`}, json: object{"scopes": []string{`a"b`}}, at: "scopes",
					in: "body.scopes[0]"},
			}),
		},
		"enforce": {page: "/policies/enforce?plan=1&limit=40+per+minute%2C+shadow", method: "POST",
			operation: "/limits/enforce?plan=1&limit=40+per+minute%2C+shadow", result: set, before: inShadow,
			form: form{"reason": "x"}, json: object{"reason": "x"},
			wrong: withReason(map[string]wrongField{
				"reason": {form: form{"reason": ""}, json: object{"reason": ""}, at: "reason"}}),
			touch: func(s *sitetest.Site) {
				s.Keys.Save(func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 9 })
			}},
		"all callers": {page: "/policies/all", method: "PUT", operation: "/all-callers", versioned: true,
			result: set,
			form: form{"limits": "50 per minute, each address", "deny": "192.0.2.7 198.51.100.0/24",
				"tokenPlan": "free", "reason": "x"},
			json: object{"limits": []string{"50 per minute, each address"}, "deny": []string{"192.0.2.7/32",
				"198.51.100.0/24"},
				"tokenPlan": "free", "reason": "x"},
			warned: &wrongField{
				form: form{"allow": "192.0.2.0/24"},
				json: object{"allow": []string{"192.0.2.0/24"}},
			},
			wrong: withReason(map[string]wrongField{
				"network": {
					form: form{"deny": "nonsense"},
					json: object{"deny": []string{"nonsense"}},
					at:   "deny",
					in:   "body.deny[0]",
				},
				"plan": {form: form{"tokenPlan": "none"}, json: object{"tokenPlan": "none"}, at: "tokenPlan"},
			}),
			touch: func(s *sitetest.Site) {
				s.Keys.Save(func(set *policy.Set) {
					set.Limits = append(set.Limits, sitetest.Limit("50 per minute, each address, shadow"))
				})
			}},
		"token": {page: "/settings/tokens/new", method: "POST", operation: "/tokens", unversioned: true,
			form: form{"name": "ci", "scope": "read", "lasts": "30d"},
			json: object{"name": "ci", "scope": "read", "expires": time.Now().Add(720 * time.Hour)},
			wrong: map[string]wrongField{
				"name":  {form: form{"name": " "}, json: object{"name": " "}, at: "name"},
				"scope": {form: form{"scope": "root"}, json: object{"scope": "root"}, at: "scope"},
				"expiry": {form: form{"lasts": "at", "until": "2199-05-01T12:30"},
					json: object{"expires": "2199-05-01T12:30:00Z"}, at: "until", in: "body.expires"},
			}},
	}
}

func overrideBig(s *sitetest.Site, reason string) {
	s.Keys.Save(func(set *policy.Set) {
		set.GroupOverrides = map[string]policy.Override{"big": {Reason: reason}}
	})
}

func inGroup(s *sitetest.Site) {
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "big" })
}

// site is a site with a session of the editor, whose operations are called with it.
type site struct{ *sitetest.Site }

func newSite(t *testing.T, d doors) site {
	t.Helper()
	s := site{sitetest.New(t).Login()}
	if d.before != nil {
		d.before(s.Site)
	}
	return s
}

// version is the version of what a command changes.
func (s site) version(d doors) string {
	switch {
	case d.unversioned && !strings.HasPrefix(d.page, "/policies"):
		return ""
	case strings.HasPrefix(d.page, "/keys"):
		return s.Keys.Named("{acme#}")
	}
	return s.Keys.Named("{policy#}")
}

func (s site) post(d doors, version string, more ...form) sitetest.Reply {
	s.T.Helper()
	values := url.Values{"version": {version}, "action": {"save"}}
	for _, f := range append([]form{d.form}, more...) {
		for name, value := range f {
			values.Set(name, value)
		}
	}
	to := d.page
	if to == "/keys/new" {
		to = "/keys"
	}
	return s.Post(to, values)
}

func (s site) call(d doors, match string, more ...object) sitetest.Reply {
	s.T.Helper()
	body, query := object{}, ""
	for _, o := range append([]object{d.json}, more...) {
		for name, value := range o {
			if name == "?" {
				query = "?" + value.(string)
			} else {
				body[name] = value
			}
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		s.T.Fatal(err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"same-origin"},
		"Origin": {s.Server.URL}}
	if match != "" {
		header.Set("If-Match", match)
	}
	if d.method == http.MethodDelete {
		text = nil
	}
	return s.DoText(d.method, "/api/v1"+d.operation+query, string(text), header)
}

// Each command does the same by its form and by its operation.
func TestCommands(t *testing.T) {
	for name, d := range commands() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, d)
			s.refusesFields(t, d)
			s.refusesViewers(t, d)
			if s.Keys.Written() != 0 {
				t.Fatal("a refused command was made")
			}
			s.refusesStale(t, d)
			s.warns(t, d)
			s.Get(d.page).Wants(t, http.StatusOK, `id="form"`)
			s.post(d, s.version(d)).Wants(t, http.StatusSeeOther)
			if d.result == nil {
				return
			}
			byForm := d.result(s.Site)
			other := newSite(t, d)
			if d.touch != nil {
				d.touch(other.Site)
			}
			match := map[bool]string{true: "*"}[d.versioned] // others need none
			if answer := other.call(d, match); answer.StatusCode >= 300 {
				t.Fatalf("got %d %s", answer.StatusCode, answer.Body)
			}
			if want, got := asJSON(t, byForm), asJSON(t, d.result(other.Site)); want != got {
				t.Errorf("by the form\n%s\nby the API\n%s", want, got)
			}
		})
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// refusesFields sends each wrong value in both encodings.
func (s site) refusesFields(t *testing.T, d doors) {
	t.Helper()
	for name, w := range d.wrong {
		page := s.post(d, s.version(d), w.form)
		if page.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(page.Body,
			`id="`+w.at+`-error"`) &&
			!strings.Contains(page.Body, `<dd class="wrong">`) {
			t.Errorf("%s: the page answers %d without an error at %s", name, page.StatusCode, w.at)
		}
		in := w.in
		if in == "" {
			in = "body." + w.at
		}
		if got := s.call(d, "*", w.json); got.StatusCode != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Body, `"location":"`+in) {
			t.Errorf("%s: the API answers %d %s, want an error at %s", name, got.StatusCode, got.Body, in)
		}
	}
}

// refusesViewers tries the command as a viewer.
func (s site) refusesViewers(t *testing.T, d doors) {
	t.Helper()
	viewer := *s.Site
	viewer.Client = s.NewClient()
	as := site{viewer.LoginAs(sitetest.Viewer)}
	as.Get(d.page).Wants(t, http.StatusForbidden)
	as.post(d, s.version(d)).Wants(t, http.StatusForbidden)
	if got := as.call(d, "*"); got.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer gets %d of the API", got.StatusCode)
	}
}

// refusesStale bases the command on a version that somebody else changed.
func (s site) refusesStale(t *testing.T, d doors) {
	t.Helper()
	if d.unversioned {
		return
	}
	old := s.version(d)
	d.touch(s.Site)
	s.post(d, old).Wants(t, http.StatusConflict, "saved first", `name="version" value="`+s.version(d)+`"`)
	if got := s.call(d, `"`+old+`"`); got.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("If-Match with an old version gets %d %s", got.StatusCode, got.Body)
	}
	if !d.versioned {
		return
	}
	if got := s.call(d, ""); got.StatusCode != http.StatusPreconditionRequired {
		t.Errorf("without If-Match: got %d, want 428", got.StatusCode)
	}
}

// warns sends what has a warning.
func (s site) warns(t *testing.T, d doors) {
	t.Helper()
	if d.warned == nil {
		return
	}
	before := s.Keys.Written()
	s.post(d, s.version(d), d.warned.form).Wants(t, http.StatusUnprocessableEntity, "Save anyway",
		`name="accepted"`)
	if got := s.call(d, "*", d.warned.json); got.StatusCode != http.StatusConflict ||
		!strings.Contains(got.Body, "query.accept") {
		t.Errorf("a warning gets %d %s", got.StatusCode, got.Body)
	}
	if s.Keys.Written() != before {
		t.Error("a change with a warning was made")
	}
}

// A token cannot create a token, and a read token changes nothing.
func TestTokensCreateNoTokens(t *testing.T) {
	s := sitetest.New(t).Login()
	header := sitetest.Bearer(s.NewToken(token.Write))
	header.Set("Content-Type", "application/json")
	got := s.DoText(http.MethodPost, "/api/v1/tokens", `{"name":"x","scope":"read","expires":"`+
		time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`, header)
	if got.StatusCode != http.StatusForbidden {
		t.Errorf("got %d %s", got.StatusCode, got.Body)
	}
}
