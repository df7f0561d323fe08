package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/coaxhq/coax/internal/bench/baseline"
	"github.com/coaxhq/coax/internal/bench/generator"
	"github.com/coaxhq/coax/internal/bench/machine"
	"github.com/coaxhq/coax/internal/server"
)

// compareNode is a node of the service that a comparison has started, or the bare
// handler that it is held against.
type compareNode struct {
	*machine.Process
	target   generator.Target
	internal string // the address of its internal listener
}

// self is this program with other words behind it, in an environment that
// makes no setting of ours.
func self(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start it again: %w", err)
	}
	command := exec.Command(path, args...)
	command.Env = withoutSettings(os.Environ())
	return command, nil
}

// runProgram runs it to its end, or until nobody wants it any more.
func runProgram(ctx context.Context, args ...string) error {
	command, err := self(args...)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = command.Process.Kill() })()
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

func (c *comparison) startSimulator(ctx context.Context) error {
	command, err := self("simulator", "--addr", simulatorListener)
	if err != nil {
		return err
	}
	c.simulator, err = machine.Start(ctx, "simulator", command, filepath.Join(c.folder, "simulator.log"), func(line string) bool {
		_, address, found := strings.Cut(line, "listens on ")
		c.provider = strings.TrimSpace(address)
		return found
	})
	return err
}

// writeConfig writes a configuration for nodes on a store.
func (c *comparison) writeConfig(name string, settings map[string]string) (string, error) {
	values := map[string]string{
		"provider.url": c.provider, "server.addr": "127.0.0.1:0", "server.internal_addr": "127.0.0.1:0",
		"server.profiling": fmt.Sprint(c.flags.profile),
		// What is in doubt is to be verified while others are measured beside it.
		"review.first_check": "1s",
	}
	maps.Copy(values, settings)
	file := filepath.Join(c.folder, name+".toml")
	return file, server.ReplaceFile(file, 0o600, server.RenderConfig("A node that is being measured.", values))
}

// startNode starts a node, and waits until it serves.
func (c *comparison) startNode(ctx context.Context, name, config string) (*compareNode, error) {
	command, err := self("serve", "--config", config)
	if err != nil {
		return nil, err
	}
	var serving struct {
		Msg      string
		Addr     string
		Internal string `json:"internal_addr"`
	}
	process, err := machine.Start(ctx, "node "+name, command, filepath.Join(c.folder, name+".log"), func(line string) bool {
		return json.Unmarshal([]byte(line), &serving) == nil && serving.Msg == "serving"
	})
	if err != nil {
		return nil, err
	}
	n := &compareNode{Process: process, internal: "http://" + serving.Internal}
	if n.target, err = c.targetAt(serving.Addr); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return n, nil
}

// startBare starts the handler that answers with the bytes of a node's answer.
func (c *comparison) startBare(ctx context.Context, like *compareNode, account *generator.Account) (*compareNode, error) {
	var example baseline.Example
	var err error
	if example.Header, example.Body, err = generator.Sample(ctx, like.target, account); err != nil {
		return nil, err
	}
	text, err := json.Marshal(example)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.folder, "example.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	command, err := self("bench", "bare-handler", "--answer", file, "--cert", filepath.Join(c.folder, "tls.pem"), "--key", filepath.Join(c.folder, "tls.key"))
	if err != nil {
		return nil, err
	}
	var at string
	process, err := machine.Start(ctx, "bare handler", command, filepath.Join(c.folder, "bare.log"), func(line string) bool {
		_, address, found := strings.Cut(line, "listens on ")
		at = strings.TrimSpace(address)
		return found
	})
	if err != nil {
		return nil, err
	}
	bare := &compareNode{Process: process}
	if bare.target, err = c.targetAt(at); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return bare, nil
}

// targetAt is an address of ours, with the trust in its certificate.
func (c *comparison) targetAt(address string) (generator.Target, error) {
	pem, err := os.ReadFile(filepath.Join(c.folder, "ca.pem"))
	if err != nil {
		return generator.Target{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return generator.Target{}, errors.New("the CA that was just made cannot be read")
	}
	return generator.Target{Addr: address, TLS: &tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}}, nil
}

// profile takes a CPU profile of a node while something loads it.
func (n *compareNode) profile(ctx context.Context, seconds int, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", n.internal, seconds), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("take a profile: %s", answer.Status)
	}
	into, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = into.ReadFrom(answer.Body)
	return errors.Join(err, into.Close())
}
