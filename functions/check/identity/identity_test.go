package identity

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidegate/internal/apikey"
	"tidegate/internal/jwt"
	"tidegate/internal/proxies"
	"tidegate/internal/testing/oidctest"
)

const (
	issuer   = "https://issuer.example/"
	audience = "orders"
)

var (
	pepper   = apikey.Pepper(strings.Repeat("pepper!!", 4))
	subjects = apikey.NewKey(pepper)
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var signingKey = oidctest.NewKey('s')

// token returns a token of the issuer for the subject that expires after an hour. more
// has further claims: name, value, name, value.
func token(subject string, more ...any) string {
	claims := map[string]any{"iss": issuer, "aud": audience, "sub": subject, "exp": now.Add(time.Hour).Unix()}
	for i := 0; i+1 < len(more); i += 2 {
		claims[more[i].(string)] = more[i+1]
	}
	return signingKey.Sign(claims)
}

// resolver returns a Resolver of the sources, written as in IDENTITY_SOURCES.
func resolver(t testing.TB, sources string) *Resolver {
	t.Helper()
	v := Variables{Sources: sources, IPv4Prefix: "32", IPv6Prefix: "64"}
	if strings.Contains(sources, "jwt") {
		v.Issuer, v.Audience, v.Keys, v.IdentityClaim, v.PlanClaim, v.Leeway = issuer, audience,
			signingKey.Set(), "sub", "plan", "30s"
	}
	c, err := v.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.Pepper = pepper
	c.JWT.Now = func() time.Time { return now }
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newKey(t testing.TB) apikey.Secret {
	t.Helper()
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

var source = netip.MustParseAddr("192.0.2.7")

func with(headers ...string) Request {
	r := Request{Headers: map[string][]string{}, Source: source}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers[headers[i]] = append(r.Headers[headers[i]], headers[i+1])
	}
	return r
}

func withToken(token string) Request { return Request{TokenOnly: true, Token: token} }

func withQuery(parameters ...string) Request {
	r := with()
	r.Query, r.Headers = with(parameters...).Headers, map[string][]string{}
	return r
}

var compareIdentities = cmp.Options{cmp.AllowUnexported(apikey.Secret{}),
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.IgnoreFields(Identity{}, "Scopes")}

// The first source with a credential decides. A credential counts only in its own places.
func TestSourcesInOrder(t *testing.T) {
	key, ada := newKey(t), token("ada", "plan", "pro")
	k, bearer := key.Reveal(), "Bearer "+ada
	isKey := Identity{Kind: Key, Subject: key.ID(), Secret: key, Display: key.ID(), Addr: source,
		Address: netip.PrefixFrom(source, 32)}
	isJWT := Identity{Kind: JWT, Subject: subjects.Token(issuer, "ada"), Plan: "pro", Display: "ada",
		Addr: source, Address: isKey.Address}
	isIP := Identity{Kind: IP, Subject: subjects.Address(isKey.Address), Display: "192.0.2.7/32",
		Addr: source, Address: netip.PrefixFrom(source, 32)}
	for _, c := range []struct {
		name, sources string
		request       Request
		want          Identity
	}{
		{"key in its header", "key", with("x-api-key", k), isKey},
		{"key as bearer", "key", with("authorization", "Bearer "+k), isKey},
		{"key as bearer in another case", "key", with("authorization", "BEARER "+k), isKey},
		{"key in both places", "key", with("x-api-key", k, "authorization", "Bearer "+k), isKey},
		{"key and the backend's bearer", "key", with("x-api-key", k, "authorization", bearer), isKey},
		{"key and the backend's basic", "key", with("x-api-key", k, "authorization", "Basic YTpi"), isKey},
		{"key in a handshake's query", "key", withQuery("x-api-key", k), isKey},
		{"key as a handshake's token", "key", withQuery("access_token", k), isKey},
		{"key first", "key,jwt,ip", with("x-api-key", k, "authorization", bearer), isKey},
		{"key second", "jwt,key", with("x-api-key", k), isKey},
		{"key as bearer, second", "jwt,key", with("authorization", "Bearer "+k), isKey},
		{"token", "jwt", with("authorization", bearer), isJWT},
		{"token in another case", "jwt", with("authorization", "bearer "+ada), isJWT},
		{"token in a handshake's query", "jwt,ip", withQuery("access_token", ada), isJWT},
		{"token second", "key,jwt", with("authorization", bearer), isJWT},
		{"token first", "jwt,key,ip", with("x-api-key", k, "authorization", bearer), isJWT},
		{"token and a usage plan's key", "jwt", with("x-api-key", "aws", "authorization", bearer), isJWT},
		{"address", "ip", with(), isIP},
		{"address and credentials that are no source", "ip",
			with("x-api-key", "aws", "authorization", "Bearer x", "authorization", "y"), isIP},
		{"address last", "key,jwt,ip", with("authorization", "Basic YTpi"), isIP},
		{"address and the backend's bearer", "key,ip", with("authorization", bearer), isIP},
		{"access_token is no header", "key,ip", with("access_token", k), isIP},
	} {
		got, err := resolver(t, c.sources).Identify(t.Context(), c.request)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got, compareIdentities); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A TOKEN event has one credential, no headers and no address.
func TestTokenEvent(t *testing.T) {
	key, ada := newKey(t), token("ada")
	for _, c := range []struct {
		sources, token string
		want           Kind
		err            error
	}{
		{"key", key.Reveal(), Key, nil},
		{"key", "Bearer " + key.Reveal(), Key, nil},
		{"key,jwt", ada, JWT, nil},
		{"key,jwt", "bearer " + ada, JWT, nil},
		{"key", "", 0, ErrMissing},
		{"key", ada, 0, ErrMissing},
		{"key,ip", "", 0, ErrNoAddress},
		{"key,ip", ada, 0, ErrNoAddress},
		{"key", "tg_test_x", 0, ErrInvalid},
		{"jwt", key.Reveal(), 0, ErrInvalid},
		{"jwt", "Basic YTpi", 0, ErrInvalid},
		{"jwt", "Bearer", 0, ErrInvalid},
	} {
		got, err := resolver(t, c.sources).Identify(t.Context(), withToken(c.token))
		if got.Kind != c.want || !errors.Is(err, c.err) || got.Addr.IsValid() || got.Address.IsValid() {
			t.Errorf("%s of %.12q: %v, %v; want %v, %v", c.sources, c.token, got, err, c.want, c.err)
		}
	}
}

// A bad credential is refused and does not make the next source decide. No error contains
// the credential.
func TestBadCredentialNeverFallsThrough(t *testing.T) {
	key, ada := newKey(t).Reveal(), token("ada")
	other, eve := newKey(t).Reveal(), token("eve")
	otherKey := key[:len(key)-1] + string('0'+(key[len(key)-1]-'0'+1)%10)
	for name, request := range map[string]Request{
		"wrong checksum":             with("x-api-key", otherKey),
		"wrong checksum, bearer":     with("authorization", "Bearer "+otherKey),
		"unknown prefix":             with("x-api-key", "sk_"+key[3:]),
		"prefix in capitals":         with("authorization", "Bearer TG_"+key[3:]),
		"empty key":                  with("x-api-key", ""),
		"key in braces":              with("x-api-key", "{"+key+"}"),
		"key with NUL":               with("x-api-key", key+"\x00"),
		"key with newline":           with("x-api-key", key+"\n"),
		"key not UTF-8":              with("x-api-key", "\xff\xfe"),
		"key of 10 KB":               with("x-api-key", strings.Repeat("tg_test_00", 1024)),
		"two key headers":            with("x-api-key", key, "x-api-key", key),
		"two keys in one":            with("x-api-key", key+","+key),
		"two different keys":         with("x-api-key", key, "authorization", "Bearer "+other),
		"key without its scheme":     with("authorization", key),
		"key behind two spaces":      with("authorization", "Bearer  "+key),
		"key behind another bearer":  with("authorization", "Bearer "+ada+",Bearer "+key),
		"key behind another scheme":  with("authorization", "Basic YTpi, bearer "+key),
		"two authorizations":         with("authorization", "Bearer "+ada, "authorization", "Bearer "+ada),
		"an authorization and Basic": with("authorization", "Basic YTpi", "authorization", "Bearer "+ada),
		"two tokens in one":          with("authorization", "Bearer "+ada+","+eve),
		"no token":                   with("authorization", "Bearer"),
		"empty token":                with("authorization", "Bearer "),
		"token behind a tab":         with("authorization", "Bearer\t\t"+ada),
		"bad signature": with("authorization",
			"Bearer "+ada[:strings.LastIndexByte(ada, '.')]+eve[strings.LastIndexByte(eve, '.'):]),
		"unsigned token": with("authorization", "Bearer eyJhbGciOiJub25lIn0.e30."),
		"token of 10 KB": with("authorization", "Bearer "+strings.Repeat("eyJhbGciOi", 1024)),
		"token and another, query": {
			Headers: map[string][]string{"authorization": {"Bearer " + ada}},
			Query:   map[string][]string{"access_token": {eve}}, Source: source,
		},
		"two tokens in the query":  {Query: map[string][]string{"access_token": {ada, ada}}, Source: source},
		"two keys in the query":    {Query: map[string][]string{"x-api-key": {key, key}}, Source: source},
		"empty key in the query":   {Query: map[string][]string{"x-api-key": {""}}, Source: source},
		"empty token in the query": {Query: map[string][]string{"access_token": {""}}, Source: source},
	} {
		for _, sources := range []string{"key,jwt,ip", "jwt,key,ip"} {
			got, err := resolver(t, sources).Identify(t.Context(), request)
			if !errors.Is(err, ErrInvalid) || got.Kind != 0 || got.Subject != "" ||
				got.Secret != (apikey.Secret{}) {
				t.Errorf("%s, %s: %v, %v; want ErrInvalid", name, sources, got, err)
				continue
			}
			for _, part := range []string{key[8:20], ada[:8], "192.0"} {
				if text := err.Error(); len(text) > 200 || strings.Contains(text, part) {
					t.Errorf("%s: the error contains the credential or the address: %s", name, text)
				}
			}
		}
	}
}

// A bad credential for a later source is refused although a good one decides: a backend
// may read the bad one without verifying it.
func TestBadCredentialWithAGoodOne(t *testing.T) {
	key, ada, eve := newKey(t).Reveal(), token("ada"), token("eve")
	good := "Bearer " + ada
	forged := "Bearer " + ada[:strings.LastIndexByte(ada, '.')] + eve[strings.LastIndexByte(eve, '.'):]
	expired := "Bearer " + token("ada", "exp", now.Add(-time.Hour).Unix())
	handshake := func(key, token string) Request {
		r := withQuery("x-api-key", key, "access_token", token)
		r.Headers = map[string][]string{}
		return r
	}
	for name, c := range map[string]struct {
		request Request
		want    error
	}{
		"both good":      {with("x-api-key", key, "authorization", good), nil},
		"forged bearer":  {with("x-api-key", key, "authorization", forged), ErrInvalid},
		"expired bearer": {with("x-api-key", key, "authorization", expired), ErrInvalid},
		"another issuer's bearer": {
			with("x-api-key", key, "authorization", "Bearer "+token("ada", "iss", "x")), ErrInvalid},
		"another audience's bearer": {
			with("x-api-key", key, "authorization", "Bearer "+token("ada", "aud", "x")), ErrInvalid},
		"unsigned bearer": {
			with("x-api-key", key, "authorization", "Bearer eyJhbGciOiJub25lIn0.e30."), ErrInvalid},
		"bearer that is no token":    {with("x-api-key", key, "authorization", "Bearer x"), ErrInvalid},
		"bearer without a token":     {with("x-api-key", key, "authorization", "Bearer"), ErrInvalid},
		"two bearers":                {with("x-api-key", key, "authorization", good+", "+good), ErrInvalid},
		"forged bearer in the query": {handshake(key, forged[len("Bearer "):]), ErrInvalid},
		"malformed key": {with("x-api-key", key[:len(key)-1], "authorization",
			good), ErrInvalid},
		"another system's key": {with("x-api-key", "aws", "authorization", good), ErrInvalid},
		"empty key":            {with("x-api-key", "", "authorization", good), ErrInvalid},
		"two keys":             {with("x-api-key", key, "x-api-key", key, "authorization", good), ErrInvalid},
		"both bad":             {with("x-api-key", "x", "authorization", forged), ErrInvalid},
		"Basic is no token":    {with("x-api-key", key, "authorization", "Basic YTpi"), nil},
	} {
		for _, sources := range []string{"key,jwt", "key,jwt,ip", "jwt,key", "jwt,key,ip"} {
			got, err := resolver(t, sources).Identify(t.Context(), c.request)
			if !errors.Is(err, c.want) || (err != nil) != (got.Kind == 0) ||
				(err != nil) != (got.Subject == "") {
				t.Errorf("%s, %s: %v, %v; want %v", name, sources, got, err, c.want)
			}
		}
	}
}

// If tokens are no source, a malformed bearer token that begins like a key is a bad key:
// the address does not decide.
func TestBadKeyIsNoAddress(t *testing.T) {
	key := newKey(t).Reveal()
	for name, request := range map[string]Request{
		"two spaces": with("authorization", "Bearer  "+key), "tab": with("authorization", "Bearer \t"+key),
		"capitals":  with("authorization", "Bearer TG_"+key[3:]),
		"no scheme": with("authorization", key), "no scheme, space": with("authorization", " "+key),
		"cut":          with("authorization", "Bearer tg_"),
		"in the query": withQuery("access_token", " "+key),
		"joined":       with("authorization", "Bearer x, Bearer "+key),
	} {
		if got, err := resolver(t, "key,ip").Identify(t.Context(), request); !errors.Is(err, ErrInvalid) ||
			got.Kind != 0 {
			t.Errorf("%s: %v, %v; want ErrInvalid", name, got, err)
		}
	}
}

// A call without a credential has no identity unless ip is a source.
func TestMissingIdentityIsNeverTheAddress(t *testing.T) {
	requests := map[string]Request{"nothing": {Source: source}, "other headers": with("accept", "*/*"),
		"Basic": with("authorization", "Basic YTpi")}
	for _, sources := range []string{"key", "jwt", "key,jwt", "jwt,key"} {
		for name, request := range requests {
			got, err := resolver(t, sources).Identify(t.Context(), request)
			if !errors.Is(err, ErrMissing) || got.Kind != 0 || got.Subject != "" {
				t.Errorf("%s of %s: got %v, %v, want ErrMissing", sources, name, got, err)
			}
		}
	}
	if got, err := resolver(t, "key,ip").Identify(t.Context(), Request{}); !errors.Is(err, ErrNoAddress) {
		t.Errorf("no address: %v, %v", got, err)
	}
}

// All addresses of an IPv6 /64 have one identity. An IPv4 address has the same identity
// when it is mapped into IPv6.
func TestIPv6RotationAndMappedIPv4(t *testing.T) {
	identify := func(r *Resolver, addr string) Identity {
		t.Helper()
		return must(r.Identify(t.Context(), Request{Source: netip.MustParseAddr(addr)}))
	}
	r := resolver(t, "ip")
	first := identify(r, "2001:db8:1:2::1")
	for _, same := range []string{"2001:db8:1:2::2", "2001:db8:1:2:ffff:ffff:ffff:ffff",
		"2001:db8:1:2::1%eth0"} {
		if got := identify(r, same); got.Subject != first.Subject || got.Address != first.Address ||
			got.Display != "2001:db8:1:2::/64" {
			t.Errorf("%s: %+v", same, got.Address)
		}
	}
	if got := identify(r, "2001:db8:1:3::1"); got.Subject == first.Subject {
		t.Error("another /64 has the same identity")
	}
	four, mapped := identify(r, "192.0.2.7"), identify(r, "::ffff:192.0.2.7")
	if diff := cmp.Diff(four, mapped, compareIdentities); diff != "" || four.Address.Bits() != 32 {
		t.Error(diff)
	}
	if got := identify(r, "192.0.2.8"); got.Subject == four.Subject {
		t.Error("another IPv4 address has the same identity")
	}
	wide := must(New(Config{Pepper: pepper, Sources: []Kind{IP}, IPv4Bits: 24, IPv6Bits: 48}))
	a, b := identify(wide, "192.0.2.7"), identify(wide, "::ffff:192.0.2.200")
	if a.Subject != b.Subject || a.Display != "192.0.2.0/24" || a.Addr == b.Addr {
		t.Errorf("%+v and %+v", a, b)
	}
	if a, b := identify(wide, "2001:db8:1:2::1"), identify(wide, "2001:db8:1:3::1"); a.Subject != b.Subject {
		t.Error("one /48 has two identities")
	}
}

var safe = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// Behind a trusted proxy the client's address identifies the caller and its network. Past
// it, headers count for nothing.
func TestAddressBehindProxies(t *testing.T) {
	r := must(New(Config{Pepper: pepper, Sources: []Kind{IP}, IPv4Bits: 32, IPv6Bits: 64,
		Proxies: must(proxies.Parse("203.0.113.0/24"))}))
	identify := func(source, forwarded string) Identity {
		t.Helper()
		return must(r.Identify(t.Context(), Request{Source: netip.MustParseAddr(source),
			Headers: map[string][]string{"x-forwarded-for": {forwarded}}}))
	}
	client := identify("198.51.100.7", "")
	got := identify("203.0.113.1", "192.0.2.66, 198.51.100.7, 203.0.113.1")
	if got.Subject != client.Subject || got.Addr != client.Addr || got.Address != client.Address ||
		got.Display != "198.51.100.7/32" {
		t.Errorf("through the proxy: got %+v, want the address of %+v", got.Addr, client.Addr)
	}
	if got := identify("198.51.100.8", "198.51.100.7, 203.0.113.1"); got.Subject == client.Subject {
		t.Error("past the proxy, a header names another caller")
	}
}

// For any subject of a token, the id is safe in a Valkey key's name, and the display text
// is bounded and printable.
func TestIdentityWithBadCharacters(t *testing.T) {
	r, seen := resolver(t, "jwt"), map[string]string{}
	for _, subject := range []string{
		"{a}", "a:b", "a", "\x00", "a\nb", "<script>", "\u202eevil", `"quoted"`, `\`,
		strings.Repeat("x", 4000), strings.Repeat("é", 65), strings.Repeat("é", 64),
	} {
		got, err := r.Identify(t.Context(), with("authorization", "Bearer "+token(subject)))
		if err != nil {
			t.Errorf("%.20q: %v", subject, err)
			continue
		}
		if !safe.MatchString(got.Subject) || seen[got.Subject] != "" {
			t.Errorf("%.20q has the id %s, which is unsafe or that of %q", subject, got.Subject,
				seen[got.Subject])
		}
		seen[got.Subject] = subject
		if len(got.Display) > 6*maxDisplayLen || strings.ContainsAny(got.Display, "\x00\n\u202e") {
			t.Errorf("%.20q is displayed as %q", subject, got.Display)
		}
	}
	if got := display(strings.Repeat("é", 65)); got != strings.Repeat("é", 64)+"…" {
		t.Errorf("got %s", got)
	}
	for _, request := range []Request{with("authorization", "Bearer "+token("")),
		with("authorization", "Bearer "+token("a", "plan", ""))} {
		if got, err := r.Identify(t.Context(), request); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// The id of a token's subject must not change between releases: records are stored by it.
func TestSubjectIsStable(t *testing.T) {
	if got := subjects.Token("https://issuer.example/", "ada"); got != "TX_GXa1jViLrfublFCQZgA" {
		t.Errorf("got %s", got)
	}
}

// While the issuer's keys cannot be read, no call with a token gets an identity, not even
// that of its address.
func TestTokenThatCannotBeChecked(t *testing.T) {
	v := Variables{Sources: "jwt,ip", Issuer: issuer, Audience: audience,
		KeysURL: "https://issuer.example/keys", IdentityClaim: "sub", Leeway: "0s",
		IPv4Prefix: "32", IPv6Prefix: "64"}
	c := must(v.Config())
	c.Pepper = pepper
	c.JWT.Client = &http.Client{Transport: refuse{}}
	r := must(New(c))
	r.Warm(t.Context())
	got, err := r.Identify(t.Context(), with("authorization", "Bearer "+token("ada")))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, jwt.ErrNoKeys) || got.Kind != 0 {
		t.Errorf("got %v, %v, want ErrUnavailable", got, err)
	}
	if got, err := r.Identify(t.Context(), with()); err != nil || got.Kind != IP {
		t.Errorf("without a token: %v, %v", got, err)
	}
	c.Sources = []Kind{Key, JWT}
	request := with("x-api-key", newKey(t).Reveal(), "authorization", "Bearer "+token("ada"))
	if got, err := must(New(c)).Identify(t.Context(), request); !errors.Is(err, ErrUnavailable) ||
		got.Kind != 0 {
		t.Errorf("with a key: %v, %v", got, err)
	}
}

type refuse struct{}

func (refuse) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

// An identity that is printed or logged shows neither credential nor address.
func TestIdentityIsLoggedWithoutSecrets(t *testing.T) {
	key := newKey(t)
	id := must(resolver(t, "key").Identify(t.Context(), with("x-api-key", key.Reveal())))
	address := must(resolver(t, "ip").Identify(t.Context(), with()))
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "identity", id, "other", address)
	text := log.String() + fmt.Sprintf("%v %+v %#v %s %v", id, id, id, id, []Identity{id, address})
	if strings.Contains(text, key.Reveal()[20:40]) || strings.Contains(text, "192.0.2") ||
		!strings.Contains(text, key.ID()) {
		t.Error(text)
	}
}

func TestWarmWithoutTokens(t *testing.T) {
	resolver(t, "key").Warm(t.Context())
	if got := Kind(0).String() + Kind(9).String(); got != "nonenone" {
		t.Error(got)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{}, {Sources: []Kind{IP}, IPv4Bits: 33}, {Sources: []Kind{IP}, IPv6Bits: -1},
		{Sources: []Kind{JWT}, Pepper: pepper}, {Sources: []Kind{IP}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if _, err := New(Default()); err != nil {
		t.Error(err)
	}
}

// No request panics. Only a good key or token gives an identity of a key or a token.
func FuzzIdentify(f *testing.F) {
	key, ada := newKey(f), token("ada")
	for _, seed := range []string{"", "Bearer", "Bearer ", "bearer eyJ.e30.", "Basic x, Bearer y",
		"tg_test_0", "Bearer tg_", "x,y", "\xff"} {
		for _, sources := range []byte{0, 1, 2, 3} {
			f.Add(sources, seed, seed, seed, "192.0.2.1")
		}
	}
	f.Add(byte(3), key.Reveal(), "Bearer "+ada, ada, "::ffff:1.2.3.4")
	resolvers := []*Resolver{resolver(f, "key"), resolver(f, "jwt"), resolver(f, "key,jwt,ip"),
		resolver(f, "jwt,key,ip")}
	f.Fuzz(func(t *testing.T, sources byte, header, authorization, parameter, addr string) {
		from, _ := netip.ParseAddr(addr)
		request := Request{
			Headers: map[string][]string{"x-api-key": {header}, "authorization": {authorization}},
			Query:   map[string][]string{"access_token": {parameter}},
			Source:  from,
		}
		if header == "" {
			delete(request.Headers, "x-api-key")
		}
		r := resolvers[int(sources)%len(resolvers)]
		for _, request := range []Request{request, {Headers: request.Headers, Source: from},
			{TokenOnly: true, Token: authorization}} {
			got, err := r.Identify(t.Context(), request)
			if err != nil {
				if got.Kind != 0 || got.Subject != "" || !errors.Is(err, ErrInvalid) &&
					!errors.Is(err, ErrMissing) && !errors.Is(err, ErrNoAddress) {
					t.Fatalf("%+v: %v, %v", request, got, err)
				}
				continue
			}
			credentials := strings.Join([]string{header, authorization, parameter}, " ")
			switch got.Kind {
			case Key:
				if _, err := apikey.Parse(got.Secret.Reveal()); err != nil ||
					!strings.Contains(credentials, got.Secret.Reveal()) || got.Subject != got.Secret.ID() {
					t.Fatalf("%+v: %v, %v", request, got, err)
				}
			case JWT:
				if got.Subject != subjects.Token(issuer, "ada") {
					t.Fatalf("%+v: %v", request, got)
				}
			case IP:
				if !safe.MatchString(got.Subject) || got.Addr.Is4In6() {
					t.Fatalf("%+v: %v", request, got)
				}
			}
		}
	})
}

const foreign = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"

// foreignResolver returns a resolver that accepts foreign values too.
func foreignResolver(t *testing.T, sources string) *Resolver {
	t.Helper()
	r := resolver(t, sources)
	r.config.Foreign = true
	return r
}

// A foreign value is accepted only where API keys stand, not as a bearer token, which may
// be for the backend.
func TestForeignValues(t *testing.T) {
	want := must(subjects.Foreign(foreign))
	own := newKey(t).Reveal()
	good := "Bearer " + token("ada")
	for name, c := range map[string]struct {
		sources string
		request Request
		want    error
	}{
		"header":                    {"key", with("x-api-key", foreign), nil},
		"handshake":                 {"key", withQuery("x-api-key", foreign), nil},
		"with a good token":         {"key,jwt", with("x-api-key", foreign, "authorization", good), nil},
		"with a backend's":          {"key", with("x-api-key", foreign, "authorization", "Bearer x"), nil},
		"TOKEN authorizer":          {"key", withToken(foreign), nil},
		"TOKEN authorizer, Bearer":  {"key", withToken("Bearer " + foreign), nil},
		"TOKEN authorizer with jwt": {"key,jwt", withToken(foreign), ErrInvalid},
		"bearer":                    {"key", with("authorization", "Bearer "+foreign), ErrMissing},
		"twice":                     {"key", with("x-api-key", foreign, "x-api-key", foreign), ErrInvalid},
		"joined":                    {"key", with("x-api-key", foreign+","+foreign), ErrInvalid},
		"two values": {"key", with("x-api-key", foreign, "authorization", "Bearer "+own),
			ErrInvalid},
		"with a forged token": {"key,jwt", with("x-api-key", foreign, "authorization", good+"x"),
			ErrInvalid},
		"spaces":                      {"key", with("x-api-key", " "+foreign), ErrInvalid},
		"short":                       {"key,ip", with("x-api-key", "short"), ErrInvalid},
		"our form with a wrong check": {"key", with("x-api-key", own[:len(own)-1]+"!"), ErrInvalid},
		"our form in capitals":        {"key", with("x-api-key", "TG_"+own[3:]), ErrInvalid},
	} {
		got, err := foreignResolver(t, c.sources).Identify(t.Context(), c.request)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		} else if err == nil && (got.Kind != Key || got.Subject != want.ID() || got.Secret != want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	_, err := resolver(t, "key").Identify(t.Context(), with("x-api-key", foreign))
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("without FOREIGN_KEYS: got %v, want ErrInvalid", err)
	}
	if _, err := New(Config{Sources: []Kind{Key}, Foreign: true}); err == nil {
		t.Error("foreign keys were accepted without a pepper, which ids are made with")
	}
}

// placed returns a Resolver of key and jwt with further places of credentials.
func placed(t *testing.T, change func(*Config)) *Resolver {
	t.Helper()
	r := resolver(t, "key,jwt")
	change(&r.config)
	return r
}

// Credentials count where clients of other systems send them, and nowhere else.
func TestPlaces(t *testing.T) {
	key, ada := newKey(t), token("ada", "plan", "pro")
	k, site := key.Reveal(), "https://app.example.com"
	handshake := func(protocols string) Request {
		r := withQuery()
		r.Headers[protocolHeader] = []string{protocols}
		return r
	}
	r := placed(t, func(c *Config) {
		c.KeyHeaders, c.Cookie, c.CookieOrigins = []string{"apikey", "x-our-key"}, "session", []string{site}
	})
	for name, c := range map[string]struct {
		request Request
		kind    Kind // 0 for a refused or missing credential
	}{
		"header of another gateway":  {with("apikey", k), Key},
		"header of our own":          {with("x-our-key", k), Key},
		"both headers":               {with("apikey", k, "x-our-key", k), Key},
		"headers that differ":        {with("apikey", k, "x-our-key", newKey(t).Reveal()), 0},
		"a header that is not named": {with("x-api-key", k), 0},
		"scheme ApiKey":              {with("authorization", "ApiKey "+k), Key},
		"scheme Token":               {with("authorization", "token "+k), Key},
		"scheme and header differ":   {with("apikey", k, "authorization", "Token "+newKey(t).Reveal()), 0},
		"the backend's own Token":    {with("authorization", "Token 9944b09199c62bcf9418ad846dd0e4bb"), 0},
		"a token without a scheme":   {with("authorization", ada), JWT},
		"a key without a scheme":     {with("authorization", k), 0},
		"two tokens":                 {with("authorization", ada+", "+ada), 0},
		"a forged bare token":        {with("authorization", ada[:len(ada)-2]+"AA", "apikey", k), 0},
		"cookie of a listed page":    {with("cookie", "a=b; session="+ada, "origin", site), JWT},
		"cookie without an origin":   {with("cookie", "session="+ada), 0},
		"cookie of another page":     {with("cookie", "session="+ada, "origin", "https://evil.example"), 0},
		"cookie with two origins":    {with("cookie", "session="+ada, "origin", site, "origin", site), 0},
		"two cookies":                {with("cookie", "session="+ada+"; session=x", "origin", site), 0},
		"another cookie":             {with("cookie", "xsession="+ada, "origin", site), 0},
		"cookie and bearer differ": {with("cookie", "session="+ada, "origin", site, "authorization",
			"Bearer "+token("bob")), 0},
		"protocols of a handshake":     {handshake("bearer, " + ada), JWT},
		"protocols with another one":   {handshake("graphql-ws,Bearer," + ada), JWT},
		"key in a handshake's list":    {handshake("bearer, " + k), Key},
		"protocols without bearer":     {handshake("graphql-ws, " + ada), 0},
		"bearer without a credential":  {handshake("bearer"), 0},
		"two credentials of protocols": {handshake("bearer, " + ada + ", bearer, " + token("bob")), 0},
		"protocols outside of one":     {with(protocolHeader, "bearer, "+ada), 0},
	} {
		got, err := r.Identify(t.Context(), c.request)
		if (err == nil) != (c.kind != 0) || err == nil && got.Kind != c.kind {
			t.Errorf("%s: got %v, %v, want %v", name, got.Kind, err, c.kind)
		}
	}
	if _, err := placed(t, func(*Config) {}).Identify(t.Context(),
		with("cookie", "session="+ada, "origin", site)); !errors.Is(err, ErrMissing) {
		t.Errorf("a cookie that is not configured: got %v", err)
	}
}

// With key+jwt a call needs both, and the key is the caller. Backends get the token's claims.
func TestKeyAndToken(t *testing.T) {
	v := Variables{Sources: "key+jwt", IPv4Prefix: "32", IPv6Prefix: "64", Issuer: issuer, Audience: audience,
		Keys: signingKey.Set(), IdentityClaim: "sub", PlanClaim: "plan", Leeway: "30s", ContextClaims: "sub"}
	c := must(v.Config())
	c.Pepper, c.JWT.Now = pepper, func() time.Time { return now }
	r := must(New(c))
	key, bearer := newKey(t), "Bearer "+token("ada")
	got, err := r.Identify(t.Context(), with("x-api-key", key.Reveal(), "authorization", bearer))
	if err != nil || got.Kind != Key || got.Subject != key.ID() || got.Claims["claim_sub"] != "ada" ||
		got.Scopes == nil {
		t.Errorf("got %v %v, %v", got, got.Claims, err)
	}
	for name, request := range map[string]Request{"key alone": with("x-api-key", key.Reveal()),
		"token alone": with("authorization", bearer), "neither": with(), "key twice": with("x-api-key",
			key.Reveal(), "authorization", "Bearer "+key.Reveal())} {
		if _, err := r.Identify(t.Context(), request); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: got %v, want ErrMissing", name, err)
		}
	}
}
