import { start } from "metastable/app";

start();
