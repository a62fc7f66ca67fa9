// What carries the messages: a server, a file, a notebook.

// seconds without an answer after which the page says so, and between tries to connect
const PATIENCE = 8, AGAIN = 1.5;

// the page of a server: it connects again when the server comes back
function served() {
  const url = new URL("ws", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  let socket = null, quiet = null;
  const page = mount(document.getElementById("live"), (message) => {
    socket.send(JSON.stringify(message));
    clearTimeout(quiet);
    quiet = setTimeout(() => page.busy("The server is busy, or does not answer."), 1000 * PATIENCE);
  }, false, true);
  function connect() {
    socket = new WebSocket(url);
    socket.addEventListener("message", (event) => {
      clearTimeout(quiet);
      page.busy("");
      page.receive(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => {
      page.lost(event.code === 1013 ? "Too many pages are open. Close one of them."
        : "The connection to the server is lost. All that is shown here stays, and so does what you "
          + "typed; the page tries to connect again.");
      setTimeout(connect, 1000 * AGAIN);
    });
  }
  connect();
}

// a file: the messages stand in it
function shared() {
  const page = mount(document.getElementById("live"), () => {}, true, false);
  const messages = JSON.parse(document.getElementById("messages").textContent);
  messages.forEach((message) => page.receive(message));
}

// a notebook (anywidget)
function render({ model, el }) {
  let quiet = null;
  const page = mount(el, (message) => {
    model.send(message);
    clearTimeout(quiet);
    quiet = setTimeout(() => page.lost("The kernel does not answer: it is busy, or it was started "
      + "again. All that is shown here stays; run the cell again for a new page."), 1000 * PATIENCE);
  }, false, false);
  function heard(message) {
    clearTimeout(quiet);
    if (page.page.lost) page.lost("");
    (message.messages || []).forEach((one) => page.receive(one));
  }
  model.on("msg:custom", heard);
  model.send({ do: "hello" });
  return () => { clearTimeout(quiet); model.off("msg:custom", heard); };
}

export default { render };
