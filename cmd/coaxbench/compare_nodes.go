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

	"github.com/coaxhq/coax/cmd/coaxbench/internal/baseline"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/generator"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/machine"
	"github.com/coaxhq/coax/internal/server"
)

// compareNode is a node that a comparison has started, or the bare handler of the baseline.
type compareNode struct {
	*machine.Process
	target   generator.Target
	internal string // the address of its internal listener
}

// runCoax runs coax to its end, or until the context ends, and returns its standard
// output.
func (a *app) runCoax(ctx context.Context, args ...string) ([]byte, error) {
	command := a.coaxCommand(args...)
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = command.Process.Kill() })()
	if err := command.Wait(); err != nil {
		return out.Bytes(), fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out.Bytes(), nil
}

func (c *comparison) startSimulator(ctx context.Context) error {
	var err error
	c.simulator, err = machine.Start(ctx, "simulator", c.coaxCommand("simulator", "--addr", "127.0.0.1:0"), filepath.Join(c.folder, "simulator.log"), func(line string) bool {
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
		// Each store has a mark of its own, or it would count as restored.
		"store.mark_file": name + ".mark",
		// Unknown outcomes have to be verified during the measurement.
		"review.first_check": "1s",
	}
	maps.Copy(values, settings)
	file := filepath.Join(c.folder, name+".toml")
	return file, server.ReplaceFile(file, 0o600, server.RenderConfig("A node that is being measured.", values))
}

// startNode starts a node, and waits until it serves.
func (c *comparison) startNode(ctx context.Context, name, config string) (*compareNode, error) {
	var serving struct {
		Msg      string
		Addr     string
		Internal string `json:"internal_addr"`
	}
	process, err := machine.Start(ctx, "node "+name, c.coaxCommand("serve", "--config", config), filepath.Join(c.folder, name+".log"), func(line string) bool {
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
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start the bare handler: %w", err)
	}
	command := exec.Command(program, "bare-handler", "--answer", file, "--cert", filepath.Join(c.folder, "tls.pem"), "--key", filepath.Join(c.folder, "tls.key"))
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
