package store

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// ErrURL means that a URL is not valid. The error that wraps it gives the reason, without
// the password.
var ErrURL = errors.New("valkey URL")

const defaultPort = "6379"

// CheckURL reports what is wrong with a URL, without connecting.
func CheckURL(rawURL string) error {
	_, err := parse(rawURL)
	return err
}

func parse(rawURL string) (valkey.ClientOption, error) {
	scheme, rest, found := strings.Cut(rawURL, "://")
	if !found || !slices.Contains([]string{"valkey", "valkeys", "redis", "rediss"}, scheme) {
		return valkey.ClientOption{}, fmt.Errorf("%w: must start with valkey:// or valkeys://", ErrURL)
	}
	// A URL with several hosts is not a standard one. Cut them out, and let net/url parse
	// the rest.
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	userinfo, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		userinfo, hosts = authority[:i+1], authority[i+1:]
	}
	u, err := url.Parse(scheme + "://" + userinfo + "host" + tail)
	if err != nil {
		return valkey.ClientOption{}, fmt.Errorf(
			"%w: user, password or options cannot be read; percent-encode special characters", ErrURL)
	}
	addresses, err := splitHosts(hosts)
	if err != nil {
		return valkey.ClientOption{}, err
	}
	return clientOption(u, addresses)
}

func splitHosts(hosts string) ([]string, error) {
	var addresses []string
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), defaultPort
		}
		if name == "" || port == "" {
			return nil, fmt.Errorf("%w: host is missing; write valkey://host:%s", ErrURL, defaultPort)
		}
		addresses = append(addresses, net.JoinHostPort(name, port))
	}
	return addresses, nil
}

func clientOption(u *url.URL, addresses []string) (valkey.ClientOption, error) {
	if u.Path != "" && u.Path != "/" {
		return valkey.ClientOption{}, fmt.Errorf(
			"%w: only ?options may follow the hosts: databases are not supported; percent-encode a / in a "+
				"password", ErrURL)
	}
	query, err := parseQuery(u.RawQuery)
	if err != nil {
		return valkey.ClientOption{}, err
	}
	option := valkey.ClientOption{InitAddress: addresses, Username: u.User.Username(),
		ForceSingleClient: !query.cluster}
	option.Password, _ = u.User.Password()
	if u.Scheme == "valkeys" || u.Scheme == "rediss" {
		option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if query.cache == "" {
		return option, nil
	}
	id := iamIdentity{cache: query.cache, user: option.Username, region: query.region,
		serverless: query.serverless, now: time.Now}
	if err := checkIAM(option, id); err != nil {
		return valkey.ClientOption{}, err
	}
	option.AuthCredentialsFn = id.credentials
	return option, nil
}

// query has the options of a URL.
type query struct {
	cluster, serverless bool
	cache, region       string
}

func parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, fmt.Errorf("%w: options cannot be read; write name=value&name=value", ErrURL)
	}
	var q query
	for name, all := range values {
		if len(all) > 1 {
			return query{}, fmt.Errorf("%w: option %s is given more than once", ErrURL, name)
		}
		if err := q.set(name, all[0]); err != nil {
			return query{}, err
		}
	}
	if q.cache == "" && (q.region != "" || q.serverless) {
		return query{}, fmt.Errorf("%w: options region and serverless require iam=CACHE", ErrURL)
	}
	q.region = cmp.Or(q.region, os.Getenv("AWS_REGION"))
	return q, nil
}

func (q *query) set(name, value string) error {
	switch name {
	case "cluster":
		return setBool(&q.cluster, name, value)
	case "serverless":
		return setBool(&q.serverless, name, value)
	case "iam":
		return setName(&q.cache, name, value)
	case "region":
		return setName(&q.region, name, value)
	}
	return fmt.Errorf("%w: option %q is unknown; use cluster, iam, region or serverless", ErrURL, name)
}

func setBool(to *bool, name, value string) error {
	if value != "true" && value != "false" {
		return fmt.Errorf("%w: option %s must be true or false", ErrURL, name)
	}
	*to = value == "true"
	return nil
}

// maxName is the maximum length of a cache's or region's name.
const maxName = 50

// setName accepts the characters that AWS allows in the name of a cache or region.
// ElastiCache keeps names in lower case, and a token for another spelling fails.
func setName(to *string, name, value string) error {
	if value == "" || len(value) > maxName ||
		strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%w: option %s must be a name of 1 to %d lower-case letters, digits and hyphens",
			ErrURL, name, maxName)
	}
	*to = value
	return nil
}

// Clustered reports whether a URL's hosts are nodes of a cluster.
func Clustered(rawURL string) bool {
	option, err := parse(rawURL)
	return err == nil && !option.ForceSingleClient
}
