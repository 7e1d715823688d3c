// Says where a server listens that was given port 0: `PORT=0 node --import ./announce.mjs SERVER`.

import { Server } from 'node:net';

const { listen } = Server.prototype;
Server.prototype.listen = function (...where) {
    this.once('listening', () => console.error(`serving http://127.0.0.1:${this.address().port}`));
    return listen.apply(this, where);
};
