package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type settings struct {
	Wait  time.Duration `env:"WAIT" envDefault:"5s"`
	Count int           `env:"COUNT"`
	Name  string        `env:"NAME,required,notEmpty"`
}

func TestRead(t *testing.T) {
	got, problems := Read[settings]([]string{"NAME=x=y", "COUNT=3"})
	if err := problems.Err(); err != nil || got != (settings{5 * time.Second, 3, "x=y"}) {
		t.Errorf("got %+v, %v, want 5 s, 3 and x=y", got, err)
	}
}

// Err names every variable that cannot be read once, with its problem. Read still reads
// the others.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"unset": {[]string{"WAIT=1s"}, "NAME is not set"},
		"empty": {[]string{"NAME="}, "NAME is empty"},
		"number": {[]string{"NAME=x", "COUNT=many"},
			`COUNT cannot be read: strconv.ParseInt: parsing "many": invalid syntax`},
		"several": {
			[]string{"WAIT=soon", "COUNT=many"},
			`WAIT cannot be read: unable to parse duration: time: invalid duration "soon"` + "\n" +
				`COUNT cannot be read: strconv.ParseInt: parsing "many": invalid syntax` +
				"\nNAME is not set",
		},
	} {
		_, problems := Read[settings](c.variables)
		if err := problems.Err(); err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", name, err, c.want)
		}
	}
	got, problems := Read[settings]([]string{"WAIT=soon", "COUNT=3", "NAME=x"})
	problems.Add("WAIT", "is too short")
	problems.Add("COUNT", "is too small")
	problems.AddError(nil)
	if got.Count != 3 || got.Name != "x" || !problems.Has("NAME", "COUNT") || problems.Has("NAME") {
		t.Errorf("got %+v, %v, want Count 3, Name x and a problem of COUNT", got, problems.Err())
	}
	if text := problems.Err().Error(); strings.Count(text, "WAIT") != 1 ||
		!strings.HasSuffix(text, "\nCOUNT is too small") {
		t.Errorf("got %q, want WAIT once and a problem of COUNT at the end", text)
	}
}

// Both bounds are valid values. The error for a value beyond them names the bounds.
func TestCheck(t *testing.T) {
	for d, bounds := range map[Duration]string{
		ValkeyTimeout: "1ms to 10s", CallerCache: "0s to 24h", DenyCache: "0s to 1m",
		SessionIdle:                   "1m to 720h",
		{90 * time.Second, time.Hour}: "1m30s to 1h",
	} {
		for value, ok := range map[time.Duration]bool{d.Least: true, d.Most: true, d.Least - 1: false,
			d.Most + 1: false} {
			err := d.Check(value)
			if (err == nil) != ok || err != nil && err.Error() != "is "+value.String()+": must be "+bounds {
				t.Errorf("%s: %s: got error %v, want none: %t", bounds, value, err, ok)
			}
		}
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"":               "[]",
		"203.0.113.0/24": "[203.0.113.0/24]",
		"\t203.0.113.7, 2001:db8::/32\n10.0.0.0/8": "[203.0.113.7/32 2001:db8::/32 10.0.0.0/8]",
		"::1":              "[::1/128]",
		"::ffff:192.0.2.1": "[192.0.2.1/32]",
		"0.0.0.0/0,::/0":   "[0.0.0.0/0 ::/0]",
	} {
		got, err := Networks(text)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		" , ":                        "has no network",
		"10.0.0.300/8":               `"10.0.0.300/8", which is not a network`,
		"10.0.0.0/33":                `"10.0.0.0/33", which is not a network`,
		"10.0.0.0/8;192.0.2.0/24":    `"10.0.0.0/8;192.0.2.0/24", which is not a network`,
		"example.com":                `"example.com", which is not a network`,
		"fe80::1%eth0":               `"fe80::1%eth0", which is not a network`,
		"2001:db8::/129":             `"2001:db8::/129", which is not a network`,
		"10.1.2.3/16":                `"10.1.2.3/16", whose address has bits beyond the prefix length: use 10.1.0.0/16`,
		"2001:db8::1/32":             "use 2001:db8::/32",
		"::ffff:10.0.0.0/104":        "write it as an IPv4 network",
		"10.0.0.0/8,x,192.0.2.0/24":  `"x", which is not a network`,
		"10.0.0.0/8 10.1.2.3/16 y/1": `"y/1", which is not a network`,
	} {
		if got, err := Networks(text); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v; want an error with %s", text, got, err, want)
		}
	}
}
