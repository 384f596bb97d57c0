package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A udpServer hands every datagram to one function, and notes where they came from.
type udpServer struct {
	*net.UDPConn
	serving sync.WaitGroup
	mu      sync.Mutex
	ports   map[uint16]int // datagrams by source port
}

func serveUDPAt(t testing.TB, at netip.AddrPort, answer func(datagram string, reply func(string))) *udpServer {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	s := &udpServer{UDPConn: c, ports: map[uint16]int{}}
	s.serving.Go(func() {
		for buf := make([]byte, 65536); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.ports[from.Port()]++
			s.mu.Unlock()
			answer(string(buf[:n]), func(text string) { _, _ = c.WriteToUDPAddrPort([]byte(text), from) })
		}
	})
	t.Cleanup(s.end)
	return s
}

// end closes the socket, and waits until nothing is answered any more.
func (s *udpServer) end() {
	s.Close()
	s.serving.Wait()
}

func (s *udpServer) addr() netip.AddrPort { return s.LocalAddr().(*net.UDPAddr).AddrPort() }

// sources counts the source ports that datagrams came from, and the datagrams.
func (s *udpServer) sources() (ports, datagrams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.ports {
		datagrams += n
	}
	return len(s.ports), datagrams
}

func echoed(datagram string, reply func(string)) { reply(datagram) }

// A port that is refused answers each of its own datagrams, and none that is sent to it when it is open again.
func TestUDPRefusalIsOfTheDatagramItQuotes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux says which datagram an ICMP error quotes")
		return
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			server := serveUDPAt(t, netip.AddrPortFrom(netip.MustParseAddr(host), 0), echoed)
			at := server.addr()
			below, err := dialFrom("udp", 0, at, time.Now().Add(10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer below.Close()
			c := new(Conn)
			c.Start(below)
			s := NewDatagramSocket(c, Matching{IDEnd: 1, Answers: func(sent, datagram []byte) bool { return datagram[0] == sent[0] }})
			server.Close()
			write := func(text string) {
				t.Helper()
				if _, err := s.Write([]byte(text)); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			read := func(wait time.Duration) (string, error) {
				s.SetReadDeadline(time.Now().Add(wait))
				datagram, err := ReadDatagram(c.Br)
				return string(datagram), err
			}
			write("a, to a closed port")
			if _, err := read(10 * time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("a: %v", err)
			}
			write("b, whose error nobody reads in time")
			s.opened([]byte("c, which is on its way when that error is read"))
			if got, err := read(50 * time.Millisecond); !IsTimeout(err) {
				t.Errorf("c: %q, %v: it is b that was refused", got, err)
			}
			write("d, whose error is still there when")
			again := serveUDPAt(t, at, echoed)
			write("e, is sent to an open port")
			if got, err := read(10 * time.Second); err != nil || got != "e, is sent to an open port" {
				t.Errorf("e: %q, %v", got, err)
			}
			if _, datagrams := again.sources(); datagrams != 1 {
				t.Errorf("%d datagrams arrived, want e alone, once", datagrams)
			}
			again.Close()
			write("f, to a port that is closed again")
			if _, err := read(10 * time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("f: %v", err)
			}
		})
	}
}

// Datagrams are handed on as they came, one by one, also where several are read before they are looked at.
func FuzzDatagramsKeepTheirBounds(f *testing.F) {
	f.Add([]byte("one"), []byte(""), []byte("three"))
	f.Add([]byte{0, 1}, bytes.Repeat([]byte{255}, 1500), []byte{2})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var framed []byte
		all := [][]byte{a, b, c}
		for i, d := range all {
			all[i] = d[:min(len(d), LongestDatagram)]
			framed = append(binary.BigEndian.AppendUint16(framed, uint16(len(all[i]))), all[i]...)
		}
		br := bufio.NewReaderSize(bytes.NewReader(framed), ReadBuffer)
		for _, want := range all {
			if got, err := ReadDatagram(br); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q, %v, want %q", got, err, want)
			}
		}
		if _, err := ReadDatagram(br); err == nil {
			t.Error("one more datagram than were sent")
		}
	})
}
