// The search of a page that is opened as a file: browsers start no worker from file://, so that a
// hidden frame runs the worker's script instead.

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      // what the script sends is a message of the worker
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((loaded) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = () => loaded(inside);
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
