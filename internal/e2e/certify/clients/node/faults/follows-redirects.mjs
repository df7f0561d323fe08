// Wrong: sends the signed request to wherever a redirect points; another server gets it, and can answer in the service's name.
import http from "node:http";
import https from "node:https";

export default (Client) =>
  class extends Client {
    async exchange(url, options, body, seconds) {
      let answer = await super.exchange(url, options, body, seconds);
      for (let hops = 0; hops < 5 && [301, 302, 307, 308].includes(answer.status) && answer.headers.location; hops++) {
        try {
          url = new URL(answer.headers.location, url);
          answer = await super.exchange(url, options, body, seconds, url.protocol === "http:" ? http : https);
        } catch {
          break; // then the redirect is the answer
        }
      }
      return answer;
    }
  };
