//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// listeners are opened first, because a port in use is the most frequent error.
type listeners struct{ rest, http, admin net.Listener }

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

func (l *listeners) all() [3]*net.Listener { return [3]*net.Listener{&l.rest, &l.http, &l.admin} }

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
