// Package store connects to Valkey as a URL says.
package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// ErrURL means that a URL cannot be understood. The error that wraps it says why, without repeating a password.
var ErrURL = errors.New("valkey URL")

const defaultPort = "6379"

// Options bounds how long Valkey may take. Zero fields mean the defaults.
type Options struct {
	Dial  time.Duration // to connect; default 100 ms
	Write time.Duration // to answer a command; default 100 ms
	// Pooled gives each call in flight a connection of its own, so that one that timed out cannot hold up later ones.
	Pooled bool
}

// Open connects to the Valkey at rawURL and makes sure that it answers:
//
//	valkey://[user[:password]@]host[:port][,host[:port]…][?cluster=true]
//
// valkeys:// is the same over TLS; redis:// and rediss:// are accepted too. Errors name the address, never the password.
func Open(ctx context.Context, rawURL string, o Options) (valkey.Client, error) {
	option, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	option.Dialer.Timeout = orDefault(o.Dial, 100*time.Millisecond)
	option.ConnWriteTimeout = orDefault(o.Write, 100*time.Millisecond)
	option.DisableAutoPipelining = o.Pooled
	client, err := valkey.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, fmt.Errorf("ping Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	return client, nil
}

func parse(rawURL string) (valkey.ClientOption, error) {
	scheme, rest, found := strings.Cut(rawURL, "://")
	if !found || !slices.Contains([]string{"valkey", "valkeys", "redis", "rediss"}, scheme) {
		return valkey.ClientOption{}, fmt.Errorf("%w: must start with valkey:// or valkeys://", ErrURL)
	}
	// Several hosts are no standard URL: take them out, and let net/url read the rest.
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
		return valkey.ClientOption{}, fmt.Errorf("%w: user, password or options cannot be read; percent-encode special characters", ErrURL)
	}
	addresses, err := splitHosts(hosts)
	if err != nil {
		return valkey.ClientOption{}, err
	}
	cluster, err := clusterOption(u)
	if err != nil {
		return valkey.ClientOption{}, err
	}
	option := valkey.ClientOption{
		InitAddress:       addresses,
		Username:          u.User.Username(),
		DisableCache:      true,
		ForceSingleClient: !cluster,
		ClientSetInfo:     valkey.DisableClientSetInfo,
		// A default buffer is half a megabyte; a check is a few hundred bytes.
		ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	}
	option.Password, _ = u.User.Password()
	if scheme == "valkeys" || scheme == "rediss" {
		option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return option, nil
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

func clusterOption(u *url.URL) (bool, error) {
	if u.Path != "" && u.Path != "/" {
		return false, fmt.Errorf("%w: only ?options may follow the hosts: databases are not supported; percent-encode a / in a password", ErrURL)
	}
	cluster := false
	for name, values := range u.Query() {
		switch {
		case name != "cluster":
			return false, fmt.Errorf("%w: option %q is not known; cluster is", ErrURL, name)
		case values[0] != "true" && values[0] != "false":
			return false, fmt.Errorf("%w: option cluster must be true or false", ErrURL)
		}
		cluster = values[0] == "true"
	}
	return cluster, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
