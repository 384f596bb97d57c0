package main

import (
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

// A WebSocket (RFC 6455) on /ws echoes each message, and answers pings. The upgrade's reply names the Pod in X-Pod.
// At the end of a graceful drain its clients get a close frame with the code 1001, "going away", and the Pod's name
// as its reason; with --ends cut, and of a server that exits at SIGTERM, they get none.
func (s *server) webSocket(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, http.Header{"X-Pod": {s.options.Name}})
	if err != nil {
		return // Upgrade has answered
	}
	defer conn.Close()
	holding := s.held.begin()
	defer s.held.ended(holding)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.echoMessages(conn)
	}()
	select {
	case <-over:
	case <-holding.gone:
		reset(conn.NetConn())
	case <-holding.leave:
		closing := websocket.FormatCloseMessage(websocket.CloseGoingAway, s.options.Name)
		if conn.WriteControl(websocket.CloseMessage, closing, time.Now().Add(time.Second)) != nil {
			return
		}
		select {
		case <-over: // the client's close frame came
		case <-time.After(time.Second):
		}
	}
}

func (s *server) echoMessages(conn *websocket.Conn) {
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if s.counts.answer(func() error { return conn.WriteMessage(kind, s.echoOf(message)) }) != nil {
			return
		}
	}
}

// reset has the connection's peer see a reset, as when a process is killed with data unread.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
