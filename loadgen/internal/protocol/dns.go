package protocol

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/internal/hint"
	"lapse/loadgen/internal/wire"
	"lapse/loadgen/lookup"
	"lapse/timeline"
)

var dnsQuery = Protocol{
	Scheme:    "dns",
	Example:   "dns://SERVER[:PORT]/NAME[?type=A]",
	Port:      "53",
	Paths:     true,
	Proves:    func(Probe) Proof { return Proof{Text: "an answer of the DNS server that has a record"} },
	datagrams: true,
	compile:   newDNS,
}

// dnsTypes are the types of records that can be asked for.
var dnsTypes = map[string]dnsmessage.Type{
	"A":     dnsmessage.TypeA,
	"AAAA":  dnsmessage.TypeAAAA,
	"CNAME": dnsmessage.TypeCNAME,
	"SRV":   dnsmessage.TypeSRV,
	"PTR":   dnsmessage.TypePTR,
	"TXT":   dnsmessage.TypeTXT,
	"MX":    dnsmessage.TypeMX,
	"NS":    dnsmessage.TypeNS,
}

// dnsPayload is how long an answer may be, in bytes: so much fits into one packet of any network. Go's resolver says
// the same (EDNS(0), RFC 6891).
const dnsPayload = 1232

// dns speaks to dns:// targets: a query over UDP for the records of one name, with a transaction ID of its own, to
// the server itself. The name is asked for as it is: no search domain is tried, and no resolver or cache of this
// machine is in between. A new target asks from another socket each time, a reused one keeps its sockets. A query is
// sent once: a resolver would ask again.
//
//	what happened                                                       class
//	records of the type that was asked for                              ok
//	the name does not exist (NXDOMAIN), or has no such records          dns: a client finds no address
//	SERVFAIL, REFUSED, FORMERR, NOTIMP, another code                    dns: it gets no answer to use
//	an answer that is cut (TC), or does not fit into what is read       body: TCP, as clients use then, is not tried
//	not DNS, another question, another ID where nothing is overdue      body
//	an ICMP error                                                       refused, unreachable
//	nothing in time                                                     timeout_response
//
// The records, sorted, stand for the backend. What an answer says of a name's records is an event each time that it
// changes.
type dns struct {
	question dnsmessage.Question
	typeName string
	packed   []byte // the query, with an ID of zero
}

func newDNS(_ Probe, u *url.URL) (Codec, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), ".")
	query := u.Query()
	typeName := strings.ToUpper(query.Get("type"))
	if typeName == "" {
		typeName = "A"
	}
	kind, known := dnsTypes[typeName]
	delete(query, "type")
	switch {
	case name == "":
		return nil, hint.Errorf("as in dns://10.96.0.10/web.shop.svc.cluster.local", "no name to look up")
	case strings.ContainsFunc(name, func(r rune) bool { return r > '~' || r <= ' ' || r == '/' }):
		return nil, hint.Errorf("a name with other letters is written xn--…", "name %q cannot be looked up", name)
	case !known:
		return nil, hint.Errorf("one of A, AAAA, CNAME, MX, NS, PTR, SRV, TXT", "record type %q is not known",
			typeName)
	case len(query) > 0 || u.Fragment != "":
		return nil, hint.Errorf("only ?type= may follow the name", "more than a name and a type to look up")
	}
	d := &dns{typeName: typeName}
	var err error
	if d.question.Name, err = dnsmessage.NewName(name + "."); err == nil {
		d.question.Type, d.question.Class = kind, dnsmessage.ClassINET
		d.packed, err = d.pack()
	}
	if err != nil {
		return nil, fmt.Errorf("name %q cannot be looked up: %w", name, err)
	}
	return d, nil
}

// pack makes the query.
func (d *dns) pack() ([]byte, error) {
	var edns dnsmessage.ResourceHeader
	if err := edns.SetEDNS0(dnsPayload, dnsmessage.RCodeSuccess, false); err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{RecursionDesired: true},
		Questions:   []dnsmessage.Question{d.question},
		Additionals: []dnsmessage.Resource{{Header: edns, Body: &dnsmessage.OPTResource{}}},
	}
	return m.Pack()
}

func (d *dns) Request() []byte { return nil }

func (d *dns) Awaits() bool { return true }

func (d *dns) Read(*bufio.Reader, *Reply) error { return wire.ErrMalformed }

// Judge: read lets only records pass.
func (d *dns) Judge(*Reply) (timeline.Class, error) { return timeline.OK, nil }

// asksFor returns the name that is looked up.
func (d *dns) asksFor() string { return d.question.Name.String() }

// Begin makes a socket of queries of the connection. Nothing is sent.
func (d *dns) Begin(c *wire.Conn) (Dialog, error) {
	wire.NewDatagramSocket(c, wire.Matching{IDEnd: 2, Answers: sameID})
	return &dnsDialog{dns: d, sent: bytes.Clone(d.packed), server: c.RemoteAddr().String()}, nil
}

// sameID reports whether an answer has the ID of a query.
func sameID(sent, datagram []byte) bool {
	return len(datagram) >= 2 && bytes.Equal(sent[:2], datagram[:2])
}

// A dnsDialog is the queries of one socket and their answers.
type dnsDialog struct {
	*dns
	sent   []byte
	server string
	ids    [16]uint16 // of the last queries, whose answers may be overdue
	asked  int
	addrs  []netip.Addr // of the last answer, lowest first
	texts  []string     // of the last answer: records that are no addresses
}

func (d *dnsDialog) Request() []byte {
	id := uint16(rand.Uint32())
	for slices.Contains(d.ids[:], id) {
		id = uint16(rand.Uint32())
	}
	d.ids[d.asked%len(d.ids)] = id
	d.asked++
	binary.BigEndian.PutUint16(d.sent, id)
	return d.sent
}

// Heed: the socket hands on nothing that was not asked for.
func (d *dnsDialog) Heed(*bufio.Reader) error { return wire.ErrStray }

func (d *dnsDialog) Farewell() []byte { return nil }

// Read reads the answer, which is one datagram.
func (d *dnsDialog) Read(br *bufio.Reader, r *Reply) error {
	r.reset()
	d.addrs = d.addrs[:0]
	datagram, err := wire.ReadDatagram(br)
	if err != nil {
		return err
	}
	r.InBody = true
	err = d.parse(datagram, r)
	r.bodyAsExpected = err == nil
	return err
}

// parse reads an answer to the last query. The backend says what the name has, also that it has nothing.
func (d *dnsDialog) parse(datagram []byte, r *Reply) error {
	if len(datagram) == wire.LongestDatagram {
		return fmt.Errorf("%w: an answer of %d bytes or more, to a query that allows %d", wire.ErrUnexpected,
			wire.LongestDatagram, dnsPayload)
	}
	var p dnsmessage.Parser
	header, err := p.Start(datagram)
	if err != nil {
		return notDNS(err)
	}
	if header.ID != binary.BigEndian.Uint16(d.sent) || !header.Response {
		return fmt.Errorf("%w: an answer with another ID", wire.ErrUnexpected)
	}
	question, err := p.Question()
	switch {
	// a server that could not read the query
	case errors.Is(err, dnsmessage.ErrSectionDone) && header.RCode != dnsmessage.RCodeSuccess:
		return d.refusal(lookup.CodeName(header.RCode))
	case err != nil:
		return notDNS(err)
	case question.Type != d.question.Type || question.Class != d.question.Class ||
		!lookup.SameName(question.Name, d.question.Name):
		return fmt.Errorf("%w: an answer to another question", wire.ErrUnexpected)
	case !errors.Is(p.SkipQuestion(), dnsmessage.ErrSectionDone):
		return fmt.Errorf("%w: an answer to several questions", wire.ErrUnexpected)
	case header.RCode == dnsmessage.RCodeNameError:
		r.Backend = append(r.Backend, noSuchName...)
		return d.refusal(noSuchName)
	case header.RCode != dnsmessage.RCodeSuccess:
		return d.refusal(lookup.CodeName(header.RCode))
	case header.Truncated:
		return fmt.Errorf("%w: the answer was cut off (TC): it is longer than %d bytes", wire.ErrUnexpected,
			dnsPayload)
	}
	return d.records(&p, r)
}

const noSuchName = "NXDOMAIN"

func notDNS(err error) error { return fmt.Errorf("%w: not DNS: %v", wire.ErrMalformed, err) }

// refusal returns the error of an answer without records. It is the same from every server: that is known by the
// target.
func (d *dnsDialog) refusal(text string) error {
	return &net.DNSError{Err: text, Name: strings.TrimSuffix(d.asksFor(), "."), IsNotFound: text == noSuchName}
}

// records reads the records of the type that was asked for, those too that a CNAME leads to.
func (d *dnsDialog) records(p *dnsmessage.Parser, r *Reply) error {
	d.texts = d.texts[:0]
	for {
		header, err := p.AnswerHeader()
		switch {
		case errors.Is(err, dnsmessage.ErrSectionDone):
			return d.name(r)
		case err != nil:
			return notDNS(err)
		case header.Type != d.question.Type || header.Class != d.question.Class:
			err = p.SkipAnswer()
		default:
			err = d.record(p)
		}
		if err != nil {
			return notDNS(err)
		}
	}
}

// Found returns the addresses in the last answer, lowest first.
func (d *dnsDialog) Found() []netip.Addr { return d.addrs }

func (d *dnsDialog) record(p *dnsmessage.Parser) error {
	switch d.question.Type {
	case dnsmessage.TypeA:
		a, err := p.AResource()
		d.addrs = append(d.addrs, netip.AddrFrom4(a.A))
		return err
	case dnsmessage.TypeAAAA:
		a, err := p.AAAAResource()
		d.addrs = append(d.addrs, netip.AddrFrom16(a.AAAA))
		return err
	}
	text, err := recordText(p, d.question.Type)
	d.texts = append(d.texts, text)
	return err
}

// recordText returns a record that is no address, as zone files write it.
func recordText(p *dnsmessage.Parser, kind dnsmessage.Type) (string, error) {
	switch kind {
	case dnsmessage.TypeCNAME:
		v, err := p.CNAMEResource()
		return v.CNAME.String(), err
	case dnsmessage.TypePTR:
		v, err := p.PTRResource()
		return v.PTR.String(), err
	case dnsmessage.TypeNS:
		v, err := p.NSResource()
		return v.NS.String(), err
	case dnsmessage.TypeMX:
		v, err := p.MXResource()
		return fmt.Sprintf("%d %s", v.Pref, v.MX), err
	case dnsmessage.TypeSRV:
		v, err := p.SRVResource()
		return fmt.Sprintf("%d %d %d %s", v.Priority, v.Weight, v.Port, v.Target), err
	}
	v, err := p.TXTResource()
	return fmt.Sprintf("%q", v.TXT), err
}

// name names the answer by its records.
func (d *dnsDialog) name(r *Reply) error {
	slices.SortFunc(d.addrs, netip.Addr.Compare)
	d.addrs = slices.Compact(d.addrs)
	slices.Sort(d.texts)
	for i, addr := range d.addrs {
		if i > 0 {
			r.Backend = append(r.Backend, ", "...)
		}
		r.Backend = addr.AppendTo(r.Backend)
	}
	r.Backend = append(r.Backend, strings.Join(d.texts, ", ")...)
	if len(r.Backend) == 0 {
		r.Backend = append(append(r.Backend, "no record of type "...), d.typeName...)
		return d.refusal(string(r.Backend))
	}
	if n := len(d.addrs) + len(d.texts); len(r.Backend) > LongestBackendName {
		sum := crc32.ChecksumIEEE(r.Backend)
		r.Backend = fmt.Appendf(r.Backend[:0], "%d records, checksum %08x", n, sum)
	}
	return nil
}
