package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
)

// A port that is refused answers each of its own datagrams, and none that is sent to it when it is open again.
func TestUDPRefusalIsOfTheDatagramItQuotes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux says which datagram an ICMP error quotes")
		return
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			server := loadtest.ServeUDPAt(t, netip.AddrPortFrom(netip.MustParseAddr(host), 0), loadtest.Echo)
			at := server.Addr()
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
			again := loadtest.ServeUDPAt(t, at, loadtest.Echo)
			write("e, is sent to an open port")
			if got, err := read(10 * time.Second); err != nil || got != "e, is sent to an open port" {
				t.Errorf("e: %q, %v", got, err)
			}
			if _, datagrams := again.Sources(); datagrams != 1 {
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
