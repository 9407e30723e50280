//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"tidegate/local/gateway"
)

const (
	headerTimeout = 10 * time.Second
	stopTimeout   = 3 * time.Second
)

// servers are the running gateways.
type servers struct {
	all    []*http.Server
	failed chan error
}

// startServers starts the gateways for the functions, configured as the deployed ones
// with this corsOrigin.
func startServers(l *listeners, f invokers, corsOrigin string, log *slog.Logger) (*servers, error) {
	apis, err := gateway.Deployed()
	if err != nil {
		return nil, fmt.Errorf("set up the gateways: %w", err)
	}
	apis.OpenTo(corsOrigin)
	apis.REST.Authorizer, apis.HTTP.Authorizer = f.check, f.check
	apis.REST.Integration, apis.HTTP.Integration = f.backend, f.httpBackend
	apis.REST.Log, apis.HTTP.Log = log.With("api", "rest"), log.With("api", "http")
	s := &servers{failed: make(chan error, 4)}
	s.start(l.rest, apis.REST)
	s.start(l.http, apis.HTTP)
	s.start(l.admin, &gateway.HTTP{Integration: f.admin, APIID: "localadmin", Log: log.With("api", "admin")})
	s.start(l.invoke, invokeAPI(map[string]gateway.Invoker{"check": f.check}))
	return s, nil
}

func (s *servers) start(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	s.all = append(s.all, server)
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}()
}

// wait returns when ctx ends, or with the error of a server that failed.
func (s *servers) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// stop gives running requests a short time to finish.
func (s *servers) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, server := range s.all {
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}
}

// listeners are opened first, because a port in use is the most frequent error.
type listeners struct{ rest, http, admin, invoke net.Listener }

func listen(o options) (*listeners, error) {
	var l listeners
	for i, a := range o.addresses() {
		listener, err := net.Listen("tcp", a.address)
		if err != nil {
			l.close()
			return nil, listenError(a, err)
		}
		*l.all()[i] = listener
	}
	return &l, nil
}

func listenError(a flagAddress, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("-%s %s: address already in use (another ./scripts/run? choose another with -%s "+
			"127.0.0.1:0)", a.flag, a.address, a.flag)
	}
	return fmt.Errorf("-%s %s: %w", a.flag, a.address, err)
}

func (l *listeners) all() [4]*net.Listener {
	return [4]*net.Listener{&l.rest, &l.http, &l.admin, &l.invoke}
}

func (l *listeners) close() {
	for _, listener := range l.all() {
		if *listener != nil {
			_ = (*listener).Close() // a server may have closed it already
		}
	}
}

// url returns the address of l on this machine. A listener on every address gives
// 127.0.0.1, where browsers accept the dashboard's Secure cookie.
func url(l net.Listener) string {
	address := l.Addr().String()
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port))
	}
	return "http://" + address
}
