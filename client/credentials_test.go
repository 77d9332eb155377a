package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// token is a bearer token.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (token) RequireTransportSecurity() bool { return true }

// selfSigned makes a certificate for the name "node".
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"node"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestCredentialsReachTheNode(t *testing.T) {
	certificate, pool := selfSigned(t)
	c := newCluster(t, 1)
	n := c.nodes[0]
	n.stop()
	n.options = []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if md, _ := metadata.FromIncomingContext(ctx); len(md["authorization"]) != 1 || md["authorization"][0] != "Bearer secret" {
				return nil, status.Error(codes.Unauthenticated, "who are you?")
			}
			return next(ctx, r)
		}),
	}
	n.start()
	mutual := &tls.Config{RootCAs: pool, ServerName: "node", Certificates: []tls.Certificate{certificate}}
	for name, test := range map[string]struct {
		o    Options
		want error
	}{
		"all":            {Options{Credentials: credentials.NewTLS(mutual), Token: token("secret")}, nil},
		"wrong token":    {Options{Credentials: credentials.NewTLS(mutual), Token: token("guess")}, ErrDenied},
		"no token":       {Options{Credentials: credentials.NewTLS(mutual)}, ErrDenied},
		"no certificate": {Options{Credentials: credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "node"}), Token: token("secret")}, ErrUnavailable},
		"unknown node":   {Options{Credentials: credentials.NewTLS(&tls.Config{ServerName: "node"}), Token: token("secret")}, ErrUnavailable},
		"plain text":     {Options{}, ErrUnavailable},
	} {
		if _, err := c.dial(t, test.o).Status(ctx, ""); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if _, err := Dial([]string{"node"}, Options{Token: token("secret")}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a token over plain text: %v", err)
	}
}
