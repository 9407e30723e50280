package proxies

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// The edge is the last proxy in front of API Gateway; client and liar are addresses of
// clients.
const (
	edge   = "203.0.113.10"
	inner  = "203.0.113.20"
	client = "198.51.100.7"
	liar   = "192.0.2.66"
	v6     = "2001:db8:1::7"
	edge6  = "2001:db8:ffff::1"
)

func trusted(t testing.TB, text string) Trusted {
	t.Helper()
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// call is what API Gateway passes on: the address that it saw, and headers.
type call struct {
	source  string
	headers http.Header
}

// forwarded is a call with X-Forwarded-For as API Gateway writes it: it adds the address
// that it saw.
func forwarded(source string, before ...string) call {
	list := strings.Join(append(before, source), ", ")
	return call{source, http.Header{ForwardedFor: {list}}}
}

func viewer(source string, values ...string) call {
	return call{source, http.Header{"Cloudfront-Viewer-Address": values}}
}

func (c call) client(trusted Trusted) string {
	source, _ := netip.ParseAddr(c.source)
	return trusted.Client(source, c.headers.Values).Addr.String()
}

// check compares the client's address of each call.
func check(t *testing.T, proxies string, calls map[string]struct {
	call call
	want string
}) {
	t.Helper()
	for name, c := range calls {
		if got := c.call.client(trusted(t, proxies)); got != c.want {
			t.Errorf("TRUSTED_PROXIES=%s, %s: got %s, want %s", proxies, name, got, c.want)
		}
	}
}

type calls = map[string]struct {
	call call
	want string
}

// Only the addresses that trusted proxies wrote count; what a client sends stands left of
// them.
func TestNetworks(t *testing.T) {
	check(t, "203.0.113.0/24, 2001:db8:ffff::/48", calls{
		"through the edge":                {forwarded(edge, client), client},
		"client sends a list":             {forwarded(edge, liar, liar, client), client},
		"two trusted hops":                {forwarded(edge, client, inner), client},
		"client sends a trusted address":  {forwarded(edge, inner, client), client},
		"past the edge":                   {forwarded(client, liar), client},
		"past the edge, as if through":    {forwarded(client, liar, edge), client},
		"not added by the gateway":        {call{edge, http.Header{ForwardedFor: {client}}}, client},
		"IPv6":                            {forwarded(edge6, v6), v6},
		"IPv6 in brackets with a port":    {forwarded(edge, "["+v6+"]:443"), v6},
		"IPv4 with a port":                {forwarded(edge, client+":50000"), client},
		"IPv4 mapped into IPv6":           {forwarded(edge, "::ffff:"+client), client},
		"mapped edge":                     {forwarded("::ffff:"+edge, client), client},
		"tabs and blanks":                 {forwarded(edge, " \t"+client+"\t"), client},
		"all of them trusted":             {forwarded(edge, inner), inner},
		"no header":                       {call{edge, nil}, edge},
		"garbage where the client stands": {forwarded(edge, client, "unknown"), edge},
		"garbage left of the client":      {forwarded(edge, "<script>", client), client},
		"an empty entry":                  {forwarded(edge, client, ""), edge},
		"a zone":                          {forwarded(edge, "fe80::1%eth0"), edge},
		"port 0x1":                        {forwarded(edge, client+":0x1"), edge},
		"octal":                           {forwarded(edge, "0300.0.2.1"), edge},
		"a network":                       {forwarded(edge, "198.51.100.0/24"), edge},
		"unspecified":                     {forwarded(edge, "0.0.0.0"), edge},
		"two headers": {call{edge, http.Header{ForwardedFor: {liar + ", " + edge, client}}},
			edge},
		"CloudFront-Viewer-Address is not read": {viewer(edge, liar+":1"), edge},
	})
}

func TestCloudFront(t *testing.T) {
	check(t, "cloudfront", calls{
		"IPv4":                      {viewer(edge, client+":46532"), client},
		"IPv6 without brackets":     {viewer(edge, v6+":46532"), v6},
		"IPv6 in brackets":          {viewer(edge, "["+v6+"]:46532"), v6},
		"no port":                   {viewer(edge, client), edge},
		"IPv6, no port":             {viewer(edge, "2001:db8::"), edge},
		"port 0":                    {viewer(edge, client+":0"), edge},
		"port 65536":                {viewer(edge, client+":65536"), edge},
		"port with a sign":          {viewer(edge, client+":+1"), edge},
		"blanks":                    {viewer(edge, " "+client+":1"), edge},
		"a list":                    {viewer(edge, liar+":1, "+client+":2"), edge},
		"given twice":               {viewer(edge, liar+":1", client+":2"), edge},
		"empty":                     {viewer(edge, ""), edge},
		"garbage":                   {viewer(edge, "x"), edge},
		"no header":                 {call{edge, nil}, edge},
		"X-Forwarded-For is no use": {forwarded(edge, liar), edge},
	})
}

func TestHops(t *testing.T) {
	check(t, "1", calls{
		"one proxy":           {forwarded(edge, client), client},
		"client sends a list": {forwarded(edge, liar, client), client},
		"past the proxy":      {forwarded(client), client},
		"garbage":             {forwarded(edge, "unknown"), edge},
		"viewer address":      {viewer(edge, liar+":1"), edge},
		"IPv6":                {forwarded(edge6, v6), v6},
	})
	check(t, "2", calls{
		"two proxies":         {forwarded(edge, client, inner), client},
		"client sends a list": {forwarded(edge, liar, client, inner), client},
		"only one":            {forwarded(edge, client), edge},
		"garbage beside":      {forwarded(edge, client, "unknown"), client},
	})
}

// ParseAddr reads an address without its port and zone, and nothing else.
func TestParseAddr(t *testing.T) {
	for text, want := range map[string]string{
		client: client, client + ":46532": client, " " + client + "\t": client, client + ":0": client,
		v6: v6, "[" + v6 + "]": v6, "[" + v6 + "]:443": v6, v6 + ":46532": v6,
		"::ffff:" + client: client, "[::ffff:" + client + "]:1": client,
		"fe80::1%eth0": "fe80::1", "[fe80::1%eth0]:443": "fe80::1",
		"0.0.0.0": "0.0.0.0",
		"":        "", ":443": "", client + ":": "", client + ":65536": "", client + ":x": "",
		client + ":1:2": "", client + ", " + liar: "", client + "/32": "", "[" + client: "",
		"localhost": "", "test-invoke-source-ip": "", "0300.0.2.1": "",
	} {
		got, ok := ParseAddr(text)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: got %s, %t, want %q", text, got, ok, want)
		}
	}
}

// Without trusted proxies no header is read.
func TestNoProxies(t *testing.T) {
	source := netip.MustParseAddr(client)
	got := trusted(t, "").Client(source, func(name string) []string {
		t.Errorf("%s was read", name)
		return nil
	})
	if got.Addr != source || !strings.Contains(got.Why, "TRUSTED_PROXIES is not set") {
		t.Errorf("got %+v", got)
	}
	if got := trusted(t, "cloudfront").Client(netip.Addr{}, http.Header{}.Values); got.Addr.IsValid() {
		t.Errorf("no source: got %+v", got)
	}
}

// The reason names the header and no address.
func TestWhy(t *testing.T) {
	for _, c := range []struct {
		proxies string
		call    call
		want    string
	}{
		{"203.0.113.0/24", forwarded(edge, client), "the client's address in X-Forwarded-For"},
		{"203.0.113.0/24", forwarded(client), "it is not in TRUSTED_PROXIES"},
		{"cloudfront", viewer(edge, client+":1"), "the client's address in CloudFront-Viewer-Address"},
		{"cloudfront", viewer(edge), "the call has no CloudFront-Viewer-Address"},
		{"1", forwarded(edge, "x"), "X-Forwarded-For has no address where the client's must be"},
	} {
		source := netip.MustParseAddr(c.call.source)
		got := trusted(t, c.proxies).Client(source, c.call.headers.Values)
		if !strings.Contains(got.Why, c.want) || strings.Contains(got.Why, "203.") {
			t.Errorf("%s: got %q, want %q", c.proxies, got.Why, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{"0": "1 to 10", "11": "1 to 10", "-1": "1 to 10",
		"cloudfront,203.0.113.0/24": "cloudfront", "CloudFront": "cloudfront", "*": "number of proxies",
		"0.0.0.0/0": "every network", "203.0.113.0/24,::/0": "every network", "203.0.113.7/24": "203.0.113"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || got.Enabled() {
			t.Errorf("%s: got %+v, %v, want an error with %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "1", "10", "cloudfront", "203.0.113.7",
		"203.0.113.0/24 2001:db8::/32"} {
		trusted(t, text)
	}
}

// No header of a call that passed one trusted proxy changes the client's address, which
// the proxy added to whatever the client sent.
func FuzzClient(f *testing.F) {
	for _, sent := range []string{"", liar, edge, liar + ", " + edge, "x", ",", "::1", "[::1]:1"} {
		f.Add(sent, liar+":1")
	}
	kinds := []Trusted{trusted(f, "203.0.113.0/24"), trusted(f, "1")}
	f.Fuzz(func(t *testing.T, sent, viewerAddress string) {
		list := client + ", " + edge
		if sent != "" {
			list = sent + ", " + list
		}
		c := call{edge, http.Header{ForwardedFor: {list}, "Cloudfront-Viewer-Address": {viewerAddress}}}
		for _, kind := range kinds {
			if got := c.client(kind); got != client {
				t.Fatalf("%s, %q: got %s, want %s", kind, sent, got, client)
			}
		}
		if got := c.client(Trusted{}); got != edge {
			t.Fatal(fmt.Sprint("no proxies: got ", got))
		}
	})
}
